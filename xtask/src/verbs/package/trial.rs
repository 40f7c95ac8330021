//! Packages in a fresh Debian: installed, upgraded, used, removed, purged.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::{Outcome, cannot, say};
use super::root::{Booted, Made, Root, must};
use super::{Edition, NAMES, make};

/// A version before any other.
const EARLIER: &str = "0.0.1";
/// What apt, dpkg and the dynamic linker keep for themselves, and logs of the system.
const OF_THE_SYSTEM: [&str; 12] = [
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/log",
    "/var/cache",
    "/etc/ld.so.cache",
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/srv",
    "/var/lib/systemd",
];
/// What `tieline fleet` runs on hosts.
const FLEET: &str = include_str!("../../../../crates/fleet/src/install.sh");
/// Files that hold all users, which programs write anew.
const OF_USERS: [&str; 6] = ["passwd", "shadow", "group", "gshadow", "subuid", "subgid"];

/// Tries the packages of these files.
pub(super) fn run(edition: &Edition, built: &Path, files: &[PathBuf], target: &Path) -> Outcome {
    let root = match Root::unpack(target)? {
        Made::Ready(root) => root,
        Made::Not(why) => return cannot(format!("the packages are there, and were not tried: {why}")),
    };
    let before = listed(&root)?;
    let earlier =
        Edition { version: EARLIER.to_owned(), epoch_s: edition.epoch_s, origin: edition.origin.clone() };
    let folder = root.path("/srv/earlier");
    let old = make(&earlier, built, &folder, true)?;
    let new = root.path("/srv/new");
    fs::create_dir_all(&new)?;
    for file in files {
        fs::copy(file, new.join(file.file_name().unwrap_or_default()))?;
    }
    let trial = Trial { root, version: &edition.version };
    trial.install(&old, "earlier", EARLIER)?;
    trial.settings_are_kept_by(|| trial.upgrade())?;
    trial.first_command()?;
    trial.development()?;
    trial.service()?;
    trial.remove(&before)?;
    say("tried in a fresh Debian 12: install, upgrade, first command, headers, service, remove, purge");
    Ok(())
}

struct Trial<'a> {
    root: Root,
    version: &'a str,
}

impl Trial<'_> {
    fn sh(&self, what: &str, script: &str) -> Outcome<String> {
        must(what, &self.root.run(["sh", "-ec", script])?)
    }

    /// All at once, as `apt-get install ./*.deb` does when nothing is to be fetched.
    fn install(&self, files: &[PathBuf], folder: &str, version: &str) -> Outcome {
        let names = files
            .iter()
            .map(|file| format!("/srv/{folder}/{}", file.file_name().unwrap_or_default().display()));
        let words = ["dpkg", "--install"].map(str::to_owned).into_iter().chain(names);
        must("dpkg --install", &self.root.run(words)?)?;
        self.installed(version)
    }

    /// By what `tieline fleet upgrade` runs on a host, which has apt-get do it.
    fn upgrade(&self) -> Outcome {
        let script = format!("to=upgrade dry=$1 older=0\n{FLEET}");
        fs::write(self.root.path("/srv/upgrade"), script)?;
        let pack = "cd /srv/new; tar -cf ../new.tar *.deb; sh /srv/upgrade $0 <../new.tar";
        let by = |dry: &str| must("the upgrade by fleet", &self.root.run(["sh", "-ec", pack, dry])?);
        let version = self.version;
        expect_line(&by("1")?, &format!("tieline {version} would be installed (now: {EARLIER})"))?;
        expect_line(&by("0")?, &format!("tieline {version} (before: {EARLIER})"))?;
        self.installed(version)
    }

    fn installed(&self, version: &str) -> Outcome {
        let installed = self.sh("dpkg-query", "dpkg-query -W -f '${Package} ${Version} ${Status}\\n' tieline libtieline1 libtieline-dev tieline-sockets tieline-manager")?;
        for name in NAMES {
            expect(&installed, &format!("{name} {version} install ok installed"))?;
        }
        let said = self.sh("tieline --version", "tieline --version")?;
        expect(&said, &format!("tieline {}", env!("CARGO_PKG_VERSION")))
    }

    /// A file of settings that the administrator has changed stays as it is.
    fn settings_are_kept_by(&self, upgrade: impl FnOnce() -> Outcome) -> Outcome {
        let path = self.root.path("/etc/default/tieline");
        fs::write(&path, "TIELINE_LOG=warn\n")?;
        upgrade()?;
        match fs::read_to_string(&path)?.as_str() {
            "TIELINE_LOG=warn\n" => Ok(()),
            other => cannot(format!("the upgrade has changed /etc/default/tieline to: {other}")),
        }
    }

    /// README's first command, as a user without rights.
    fn first_command(&self) -> Outcome {
        self.sh("useradd", "useradd --create-home someone")?;
        // On a busy machine speeds are inconclusive (3), which is a result too; the health of a cluster
        // never is.
        let script = "cd; export XDG_RUNTIME_DIR=$HOME; status=0; tieline verify --quick --report verify.html || status=$?; \
                      [ $status = 0 ] || [ $status = 3 ] || exit $status; grep -q '</html>' verify.html; \
                      tieline up --nodes 3 && tieline verify --running --health && tieline down";
        let output = self.root.run(["su", "-", "someone", "-c", script])?;
        let said = must("tieline verify", &output)?;
        expect(&said, "PASS")?;
        let said = self.sh("tieline run", "su someone -c 'tieline run --rings --strict -- /bin/true && man=/usr/share/man/man1; ls $man/tieline-verify.1.gz $man/tieline.1.gz'")?;
        expect(&said, "tieline-verify.1.gz")?;
        let classic = self.sh("scipp", "/usr/libexec/tieline/classic/scipp --help")?;
        expect(&classic, "scipp")
    }

    /// A C program, by what pkg-config says.
    fn development(&self) -> Outcome {
        let script = "cd /tmp; for name in sisci tieline-mq; do pkg-config --exists $name; done; \
                      printf '#include <tieline_mq.h>\\nint main(void) { return 0; }\\n' >m.c; cc m.c $(pkg-config --cflags --libs tieline-mq) -o m; ./m; \
                      cc /usr/share/doc/libtieline-dev/examples/sisci/ping_pong.c $(pkg-config --cflags --libs sisci) -o p; \
                      ldd p | grep libsisci; ls /usr/lib/x86_64-linux-gnu/libfabric/libtieline-fi.so";
        let said = self.sh("a C program", script)?;
        expect(&said, "libsisci.so => /lib/x86_64-linux-gnu/libsisci.so")
    }

    /// The service, under a service manager of its own: who may attach, an upgrade while it runs, its
    /// removal.
    fn service(&self) -> Outcome {
        let unit = "/lib/systemd/system/tieline-node@.service";
        let verify = format!(
            "cp {unit} /tmp/tieline-node@4.service; systemd-analyze --man=no verify /tmp/tieline-node@4.service; rm /tmp/tieline-node@4.service"
        );
        self.sh("systemd-analyze verify", &verify)?;
        let system = match self.root.boot()? {
            Booted::Up(system) => system,
            Booted::Not(why) => {
                say(&format!("the service was not started: {why}"));
                return Ok(());
            }
        };
        let sh = |what: &str, script: &str| must(what, &system.run(["sh", "-ec", script])?);
        sh(
            "systemctl enable",
            "usermod -a -G tieline someone; useradd stranger; systemctl enable --now tieline-node@4",
        )?;
        let ask = "export TIELINE_RUNTIME_DIR=/run/tieline-service; runuser -u someone -- tieline query --brief; \
                   if runuser -u stranger -- tieline query --brief; then echo a stranger was let in; exit 1; fi; \
                   systemctl show -p User -p MainPID --value tieline-node@4";
        let said = sh("the service", ask)?;
        expect_line(&said, "4")?;
        expect_line(&said, "tieline")?;
        // A manager of another version takes the place of this one.
        let names: Vec<String> = NAMES.iter().map(|name| format!("/srv/new/{name}_*.deb")).collect();
        sh("an upgrade", &format!("dpkg --install {}; systemctl is-active tieline-node@4", names.join(" ")))?;
        let later = sh("the service after an upgrade", ask)?;
        if later == said {
            return cannot(format!("the upgrade has not started the manager again: {later}"));
        }
        sh(
            "dpkg --remove",
            "dpkg --remove tieline-manager; ! systemctl is-active tieline-node@4; ! runuser -u someone -- env TIELINE_RUNTIME_DIR=/run/tieline-service tieline query --brief; userdel stranger",
        )?;
        sh("dpkg --install", "dpkg --install /srv/new/tieline-manager_*.deb")?;
        Ok(())
    }

    /// Removed, the settings stay; purged, nothing does.
    fn remove(&self, before: &BTreeSet<String>) -> Outcome {
        let names = NAMES.join(" ");
        self.sh("dpkg --remove", &format!("userdel --remove someone 2>/dev/null; dpkg --remove {names}"))?;
        let left = self.left(before)?;
        if !left.contains("/etc/default/tieline") || left.iter().any(|path| path.contains("/usr/")) {
            return cannot(format!(
                "after dpkg --remove there should be the settings alone, and there is: {left:?}"
            ));
        }
        self.sh("dpkg --purge", &format!("dpkg --purge {names}"))?;
        let left = self.left(before)?;
        if !left.is_empty() {
            return cannot(format!("dpkg --purge has left: {left:?}"));
        }
        // By whole lines: the home of such a user is /nonexistent.
        let users = self.sh("getent", "getent passwd tieline || getent group tieline || echo none")?;
        expect_line(&users, "none")
    }

    fn left(&self, before: &BTreeSet<String>) -> Outcome<BTreeSet<String>> {
        Ok(listed(&self.root)?.difference(before).cloned().collect())
    }
}

fn expect(said: &str, wanted: &str) -> Outcome {
    if said.contains(wanted) { Ok(()) } else { cannot(format!("`{wanted}` is not in: {said}")) }
}

fn expect_line(said: &str, wanted: &str) -> Outcome {
    if said.lines().any(|line| line == wanted) {
        Ok(())
    } else {
        cannot(format!("no line `{wanted}` is in: {said}"))
    }
}

/// All paths of the root but those that the system writes for itself.
fn listed(root: &Root) -> Outcome<BTreeSet<String>> {
    let output = root.run(["find", "/", "-xdev", "-not", "-path", "/proc/*", "-print"])?;
    let text = must("find", &output)?;
    let is_users = |path: &str| {
        path.strip_prefix("/etc/").is_some_and(|name| OF_USERS.contains(&name.trim_end_matches('-')))
    };
    let kept = text
        .lines()
        .filter(|path| !OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder)) && !is_users(path));
    Ok(kept.map(str::to_owned).collect())
}
