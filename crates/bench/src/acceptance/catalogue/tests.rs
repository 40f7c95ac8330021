use super::*;

fn ids(only: &[&str]) -> Vec<&'static str> {
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    select(&only).unwrap().iter().map(|entry| entry.id).collect()
}

#[test]
fn selected() {
    assert_eq!(ids(&[]).len(), ALL.len());
    assert_eq!(ids(&["connect_map"]), ["connect_map"]);
    assert_eq!(
        ids(&["put"]),
        [
            "put.1MiB.hot",
            "put.1MiB.cold",
            "put.4MiB.hot",
            "put.4MiB.cold",
            "put.16MiB.hot",
            "put.16MiB.cold",
            "put.64MiB.hot",
            "put.64MiB.cold"
        ]
    );
    assert_eq!(ids(&["put.1MiB"]), ["put.1MiB.hot", "put.1MiB.cold"]);
    // A whole name is not the beginning of another.
    assert_eq!(ids(&["scipp.half_rtt.4B"]), ["scipp.half_rtt.4B"]);
    assert_eq!(ids(&["manager.idle"]), ["manager.idle"]);
    assert_eq!(ids(&["manager"]), ["manager.idle", "manager.idle.pss"]);
    assert_eq!(ids(&["scipp.half_rtt"]).len(), 3);
    // Asked twice, measured once, in the order of the list.
    assert_eq!(ids(&["up", "intr.spinning", "up.64"]), ["intr.spinning", "up.64", "up.64.pss"]);
    assert_eq!(ids(&["up.64", "up.64"]), ["up.64"]);
}

#[test]
fn an_unknown_name_is_answered_with_the_one_that_is_most_like_it() {
    for (wrong, right) in [
        ("put.1MB.hot", "put.1MiB.hot"),
        ("scipp.half_rt.4B", "scipp.half_rtt.4B"),
        ("connect.map", "connect_map"),
        ("sockets.echo.1B.p99", "sockets.echo.1B.p999"),
    ] {
        let error = select(&[wrong.to_owned()]).unwrap_err().to_string();
        assert!(error.contains(&format!("`{wrong}`")) && error.contains(&format!("`{right}`")), "{error}");
    }
    assert!(select(&[String::new()]).is_err());
}

#[test]
fn names_are_unique() {
    let mut names = ALL.map(|entry| entry.id);
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}
