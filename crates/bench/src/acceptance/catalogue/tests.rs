use super::*;

fn ids(only: &[&str]) -> Vec<&'static str> {
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    select(&only).unwrap().iter().map(|entry| entry.id).collect()
}

#[test]
fn selected() {
    assert_eq!(ids(&[]).len(), ALL.len());
    assert_eq!(ids(&["connect_map"]), ["connect_map"]);
    assert_eq!(ids(&["put"]), ["put.1MiB", "put.4MiB", "put.16MiB", "put.64MiB"]);
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
fn an_unknown_name_lists_the_known() {
    let error = select(&["pu".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("`pu`") && error.contains("put.1MiB") && error.contains("up.64"), "{error}");
}

#[test]
fn names_are_unique() {
    let mut names = ALL.map(|entry| entry.id);
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}
