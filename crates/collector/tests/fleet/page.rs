//! The page, in a browser, with what a hostile client has sent.
use crate::api::build;
use crate::api::register;
use crate::logs::batch;
use crate::logs::failing;
use crate::server::ALL;
use crate::server::Scratch;
use crate::server::Server;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

const HOSTILE: &str = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">'\"&amp;";
const FRAME: &str = "</code><script>document.title='taken'</script>";

fn hostile(server: &Server) -> String {
    register(server);
    let mut log = failing(build(), &[(1, 1), (2, 4)]);
    let failure = log.failure.as_mut().expect("it failed");
    failure.text = HOSTILE.to_owned();
    failure.frames = vec![FRAME.to_owned(), "main".to_owned()];
    let passing = crate::logs::passing(build(), &[(1, 1), (2, 5)]);
    let answer = server.ask("POST", ALL, "/api/v1/logs", &batch([&log, &passing])).json();
    answer["logs"][0]["bug"].as_str().expect("a bug").to_owned()
}

#[test]
fn what_clients_send_is_text() {
    let scratch = Scratch::new("escaped");
    let server = Server::start(&scratch, &[]);
    let bug = hostile(&server);
    for path in ["/".to_owned(), format!("/bugs/{bug}")] {
        let page = server.get(ALL, &path);
        assert_eq!(page.status, 200, "{}", page.text());
        let text = page.text();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        assert!(text.contains("&lt;script&gt;document.title=&#39;taken&#39;"), "{text}");
        let head = page.head.to_lowercase();
        assert!(head.contains("content-security-policy: default-src 'none';"), "{head}");
    }
    let page = server.get(ALL, &format!("/bugs/{bug}")).text();
    assert!(
        page.contains("This element tells failing runs from passing ones"),
        "{page}"
    );
    assert!(
        page.contains("<code>queue.head</code> <span class=\"soft\">b.c:9</span>"),
        "{page}"
    );
    assert_eq!(server.get(ALL, "/bugs/%3Cscript%3E").status, 404);
    assert_eq!(server.get(ALL, "/style.css").status, 200);
}

#[test]
fn nothing_that_clients_send_runs_in_a_browser() {
    let Some(browser) = ["/usr/bin/chromium", "/usr/bin/chromium-browser"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        println!("SKIPPED: chromium is not installed (cargo xtask test installs it)");
        return;
    };
    let scratch = Scratch::new("browser");
    let server = Server::start(&scratch, &[]);
    let bug = hostile(&server);
    let dump = |path: &str| browse(browser, &scratch, &server, path);
    for path in ["".to_owned(), format!("bugs/{bug}")] {
        let page = dump(&path);
        // A script that runs changes the title, and one that does not stays text.
        assert!(
            page.contains("<title>A failure · Refrain fleet</title>")
                || page.contains("<title>Failures · Refrain fleet</title>"),
            "{page}"
        );
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(
            page.contains("&lt;script&gt;document.title='taken'&lt;/script&gt;"),
            "{page}"
        );
    }
    // The browser does run scripts where a page has them: otherwise this would tell nothing.
    let own = scratch.0.join("own.html");
    std::fs::write(&own, "<title>a</title><script>document.title='ran'</script>").expect("written");
    let page = run(browser, &scratch, &format!("file://{}", own.display()));
    assert!(page.contains("<title>ran</title>"), "{page}");
}

fn browse(browser: &str, scratch: &Scratch, server: &Server, path: &str) -> String {
    run(
        browser,
        scratch,
        &format!("http://reader:{ALL}@{}/{path}", server.address),
    )
}

/// The page as it is when everything in it was done.
fn run(browser: &str, scratch: &Scratch, address: &str) -> String {
    let output = scratch.0.join("dom");
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--virtual-time-budget=2000",
        ])
        .arg(format!("--user-data-dir={}", scratch.0.join("browser").display()))
        .args(["--dump-dom", address])
        .env("HOME", &scratch.0)
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&output).expect("a file"))
        .stderr(Stdio::null());
    let mut browser = command.spawn().expect("a browser");
    let begin = Instant::now();
    while browser.try_wait().expect("a browser").is_none() {
        if begin.elapsed() > Duration::from_secs(120) {
            _ = browser.kill();
            _ = browser.wait();
            panic!("the browser did not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::read_to_string(&output).expect("a page")
}
