//! The names of the user who runs the test, which are removed.

use rustix::process::geteuid;

use super::Removed;

/// Ids below this belong to services, whose names identify no person.
const FIRST_PERSON_UID: u32 = 1000;
/// Names that are no person's, whoever bears them, and that texts are full of.
const NOBODY: [&str; 3] = ["root", "tieline", "user"];
/// Where other people's home directories are. In halves, as this is not the path of one machine.
const HOMES: &str = concat!("/ho", "me/");

/// Home directories and names that are to be replaced.
#[derive(Debug, Default, Clone)]
pub(in super::super) struct People {
    homes: Vec<String>,
    names: Vec<String>,
}

impl People {
    /// The user that runs this, and the one on whose behalf.
    pub(in super::super) fn here() -> Self {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let of = |name| std::env::var(name).ok();
        let own = account(&passwd, |account| account.uid == geteuid().as_raw());
        let mut people = Self::default();
        people.add_home(of("HOME"));
        people.add_home(own.as_ref().map(|own| own.home.to_owned()));
        if let Some(own) = own.filter(|own| own.uid >= FIRST_PERSON_UID) {
            people.add_name(Some(own.name.to_owned()));
        }
        for name in ["USER", "LOGNAME", "SUDO_USER"].map(of).into_iter().flatten() {
            let known = account(&passwd, |account| account.name == name);
            people.add_home(known.as_ref().map(|known| known.home.to_owned()));
            // Not every person is in that file: some come from a directory service.
            if known.is_none_or(|known| known.uid >= FIRST_PERSON_UID) {
                people.add_name(Some(name));
            }
        }
        people
    }

    pub(super) fn add_home(&mut self, home: Option<String>) {
        let home = home.map(|home| home.trim_end_matches('/').to_owned()).unwrap_or_default();
        // `/` is the home of some services, and in every path.
        if home.starts_with('/') && home.len() > 1 && !self.homes.contains(&home) {
            self.homes.push(home);
            // The longest first: one may lie in another.
            self.homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        }
    }

    pub(super) fn add_name(&mut self, name: Option<String>) {
        let name = name.unwrap_or_default();
        if !name.is_empty() && !NOBODY.contains(&name.as_str()) && !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    pub(super) fn hide(&self, mut text: String, removed: &mut Removed) -> String {
        for home in &self.homes {
            text = replace(&text, home, "~", is_in_path, is_in_name, &mut removed.home_paths);
        }
        text = other_homes(&text, &mut removed.home_paths);
        for name in &self.names {
            let in_word = |c: char| c.is_alphanumeric();
            text = replace(&text, name, "user", in_word, in_word, &mut removed.user_names);
        }
        text
    }
}

/// A line of `/etc/passwd`.
struct Account<'a> {
    name: &'a str,
    uid: u32,
    home: &'a str,
}

fn account<'a>(passwd: &'a str, wanted: impl Fn(&Account<'a>) -> bool) -> Option<Account<'a>> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let account = Account { name, uid: fields.nth(1)?.parse().ok()?, home: fields.nth(2)? };
        wanted(&account).then_some(account)
    })
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

fn is_in_path(c: char) -> bool {
    is_in_name(c) || matches!(c, '.' | '/')
}

/// Replaces whole words: not where a character that belongs to it goes before or comes after.
fn replace(
    text: &str,
    what: &str,
    with: &str,
    before: impl Fn(char) -> bool,
    after: impl Fn(char) -> bool,
    count: &mut u64,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(what) {
        let end = at + what.len();
        let alone = !text[..at].chars().next_back().is_some_and(&before)
            && !text[end..].chars().next().is_some_and(&after);
        if alone {
            out.push_str(&text[done..at]);
            out.push_str(with);
            done = end;
            *count += 1;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// Names in the paths of other people's files.
fn other_homes(text: &str, count: &mut u64) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(HOMES) {
        let (head, tail) = rest.split_at(at + HOMES.len());
        out.push_str(head);
        let end = tail.find(|c| !is_in_name(c) && c != '.').unwrap_or(tail.len());
        if end > 0 {
            out.push_str("user");
            *count += 1;
        }
        rest = &tail[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `§` stands for the folder of the homes.
    fn hide(text: &str) -> (String, u64, u64) {
        let mut people = People::default();
        for home in [format!("{HOMES}alice/"), "/srv/own".into(), "/".into()] {
            people.add_home(Some(home));
        }
        for name in ["alice", "root", ""] {
            people.add_name(Some(name.into()));
        }
        let mut removed = Removed::default();
        let text = people.hide(text.replace('§', HOMES), &mut removed);
        (text.replace(HOMES, "§"), removed.home_paths, removed.user_names)
    }

    #[test]
    fn homes_and_names_go_where_they_stand_alone() {
        assert_eq!(hide("cannot open §alice/x.toml").0, "cannot open ~/x.toml");
        assert_eq!(hide("HOME=§alice: owner alice, alice_lab").0, "HOME=~: owner user, user_lab");
        assert_eq!(hide("`/srv/own/.config` §bob.b/y"), ("`~/.config` §user/y".into(), 2, 0));
        for innocent in
            ["malice, alice2", "/mnt/srv/own/x", "the root of /srv/owned", "a/b /var/x", "in § itself"]
        {
            assert_eq!(hide(innocent), (innocent.into(), 0, 0));
        }
    }

    #[test]
    fn accounts_are_read_line_by_line() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad line\nbob:x:1001:100:Bob B,,,:/data/bob:/bin/sh\n";
        let bob = account(passwd, |account| account.uid == 1001).unwrap();
        assert_eq!((bob.name, bob.home), ("bob", "/data/bob"));
        assert!(account(passwd, |account| account.name == "eve").is_none());
    }
}
