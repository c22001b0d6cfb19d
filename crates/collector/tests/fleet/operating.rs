//! Tokens that change, and connections that nobody on the way can read.
use crate::api::until;
use crate::server::ALL;
use crate::server::Scratch;
use crate::server::Server;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

#[test]
fn tokens_are_read_again() {
    let scratch = Scratch::new("hup");
    let server = Server::start(&scratch, &[]);
    let status = |token: &str| server.get(token, "/api/v1/bugs").status;
    assert_eq!((status(ALL), status("another-token-of-ours")), (200, 401));
    let tokens = scratch.0.join("tokens");
    fs::write(&tokens, "another-token-of-ours\n").expect("written");
    server.signal("HUP");
    until("the new token is known", || {
        (status("another-token-of-ours") == 200).then_some(())
    });
    assert_eq!(status(ALL), 401);
    // One with a mistake changes nothing.
    fs::write(&tokens, "short\n").expect("written");
    server.signal("HUP");
    until("the journal says so", || {
        server.journal().contains("tokens kept as they were").then_some(())
    });
    assert_eq!(status("another-token-of-ours"), 200);
    assert!(!server.journal().contains("another-token-of-ours"));
}

/// The test's own certificate for 127.0.0.1, and its key.
fn certificate(scratch: &Scratch) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (scratch.0.join("certificate.pem"), scratch.0.join("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=refrain", "-addext", "subjectAltName=IP:127.0.0.1"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status();
    made.is_ok_and(|status| status.success()).then_some((certificate, key))
}

#[test]
fn a_certificate_makes_it_https() {
    let scratch = Scratch::new("tls");
    let Some((certificate, key)) = certificate(&scratch) else {
        println!("SKIPPED: openssl is not installed, which makes a certificate");
        return;
    };
    let setting = format!("tls={},{}", certificate.display(), key.display());
    let server = Server::start(&scratch, &[&setting]);
    let mut client = Command::new("openssl");
    client
        .args([
            "s_client",
            "-quiet",
            "-verify_return_error",
            "-connect",
            &server.address.to_string(),
        ])
        .arg("-CAfile")
        .arg(&certificate)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut client = client.spawn().expect("a client");
    let mut input = client.stdin.take().expect("its input");
    let ask =
        format!("GET /api/v1/bugs HTTP/1.1\r\nHost: fleet\r\nAuthorization: Bearer {ALL}\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut input, ask.as_bytes()).expect("sent");
    let answer = crate::server::receive(client.stdout.as_mut().expect("its output")).expect("an answer");
    drop(input);
    client.wait().expect("it ends");
    assert_eq!((answer.status, answer.text().as_str()), (200, "{\"bugs\":[]}"));
    // Without TLS there is no answer.
    assert!(server.try_ask("GET", ALL, "/health", &[]).is_none());
    // A key that is none is refused with its name.
    let wrong = format!("tls={},{}", certificate.display(), scratch.0.join("tokens").display());
    drop(server);
    let output = scratch.command(&[&wrong]).output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tokens for TLS"));
}
