//! The looks themselves: what they must not miss.

use tieline_tests::Watchdog;

use crate::browser::{Look, find};

const LOOK: Look = Look { width: 800, height: 1200, dark: false };

#[test]
fn a_blank_page_and_a_lonely_heading_are_no_report() {
    let _watchdog = Watchdog::new("blank page", std::time::Duration::from_secs(300));
    let Some(browser) = find("a_blank_page_and_a_lonely_heading_are_no_report") else { return };
    for html in [
        "<!DOCTYPE html><title>x</title>",
        "<!DOCTYPE html><title>x</title><h1>PASS: all is well</h1><p>Truly.",
    ] {
        let (picture, visit) = browser.screenshot(&browser.page("blank.html", html), LOOK);
        let why = picture.shows_much().unwrap_err();
        assert!(why.contains("colours"), "{why}");
        assert!(
            visit.console().is_empty() && visit.requests().is_empty(),
            "{:?} {:?}",
            visit.console(),
            visit.requests()
        );
    }
}

#[test]
fn an_error_on_the_console_is_seen() {
    let _watchdog = Watchdog::new("console", std::time::Duration::from_secs(300));
    let Some(browser) = find("an_error_on_the_console_is_seen") else { return };
    let html = "<!DOCTYPE html><title>x</title><p>text<script>console.error('planted error')</script>";
    let (_, visit) = browser.screenshot(&browser.page("error.html", html), LOOK);
    assert!(visit.console().iter().any(|line| line.contains("planted error")), "{}", visit.err);
    // What the report's own policy refuses is an error on the console, too.
    let html = "<!DOCTYPE html><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\"><p>text<script>1</script>";
    let (_, visit) = browser.screenshot(&browser.page("refused.html", html), LOOK);
    assert!(visit.console().iter().any(|line| line.contains("Content Security Policy")), "{}", visit.err);
}

#[test]
fn a_request_to_elsewhere_is_seen() {
    let _watchdog = Watchdog::new("request", std::time::Duration::from_secs(300));
    let Some(browser) = find("a_request_to_elsewhere_is_seen") else { return };
    // The discard port of this machine: nobody listens, and nothing leaves it.
    let html = "<!DOCTYPE html><title>x</title><p>text<img src=\"http://127.0.0.1:9/planted.png\">";
    let (_, visit) = browser.screenshot(&browser.page("request.html", html), LOOK);
    assert!(visit.requests().iter().any(|address| address.contains("planted.png")), "{:?}", visit.requests());
}
