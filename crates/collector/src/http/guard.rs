//! Who asks, whether they may, and how often.
use super::Shared;
use super::answer::Problem;
use crate::Grant;
use crate::Right;
use crate::journal;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::header;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::json;
use std::time::Instant;

/// Characters of a path in the journal.
const PATH_SHOWN: usize = 200;

/// Lets through who has a token that gives the right to this; handlers find the [`Grant`] in the request.
pub async fn guard(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let granted = {
        let tokens = app.tokens.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        token_of(request.headers()).and_then(|token| tokens.grant(&token).cloned())
    };
    let Some(grant) = granted else {
        app.counters.refused_token();
        let sentence = "a token of this server is needed: Authorization: Bearer TOKEN, or TOKEN as the password";
        return Problem::new(StatusCode::UNAUTHORIZED, sentence).into_response();
    };
    if grant.right < right_for(request.method(), request.uri().path()) {
        let sentence = "this token may upload logs and inputs and read advice, nothing else";
        return Problem::new(StatusCode::FORBIDDEN, sentence).into_response();
    }
    if let Err(wait) = app.rates.take(grant.id, Instant::now()) {
        app.counters.refused_rate();
        let sentence = "this token asks too often; wait a little";
        let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).into_response();
        let seconds = HeaderValue::from(wait.as_secs() + 1);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
        return response;
    }
    // A form of another site comes with the browser's password for this one.
    if !is_ours(request.method(), request.headers()) {
        return Problem::new(StatusCode::FORBIDDEN, "another site may not ask for this").into_response();
    }
    request.extensions_mut().insert::<Grant>(grant);
    next.run(request).await
}

/// Everything that is not listed takes the right to everything.
fn right_for(method: &Method, path: &str) -> Right {
    let Some(rest) = path.strip_prefix("/api/v1/") else {
        return Right::Everything;
    };
    let parts: Vec<&str> = rest.split('/').collect();
    match (method.as_str(), parts.as_slice()) {
        ("POST", ["logs"]) | ("PUT", ["logs", _, "inputs"]) | ("GET", ["advice", _]) => Right::Upload,
        _ => Right::Everything,
    }
}

/// Browsers say where a request comes from; others say nothing.
fn is_ours(method: &Method, headers: &HeaderMap) -> bool {
    let from = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    method == Method::GET || method == Method::HEAD || matches!(from, None | Some(b"same-origin" | b"none"))
}

/// Of `Bearer TOKEN`, or the password of `Basic`.
fn token_of(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(base64(rest.trim())?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// As much of it as is worth a line.
fn shown(path: &str) -> String {
    path.chars().take(PATH_SHOWN).collect()
}

/// A line in the journal for every request, and headers that browsers want, whatever the answer is.
pub async fn watch(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let (method, path) = (request.method().clone(), shown(request.uri().path()));
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let status = response.status().as_u16();
    app.counters.request(status);
    // JSON, so whatever the path has, it is one line.
    journal::say(
        "request",
        json!({ "method": method.as_str(), "path": path, "status": status, "ms": begin.elapsed().as_millis() as u64 }),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_tokens() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            token_of(&headers)
        };
        assert_eq!(of("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(of("bearer abc").as_deref(), Some("abc"));
        assert_eq!(of("Basic dXNlcjphOmI=").as_deref(), Some("a:b"));
        assert_eq!(of("Basic dXNlcg=="), None);
        assert_eq!(of("Basic ****"), None);
        assert_eq!(of("Digest abc"), None);
        assert_eq!(token_of(&HeaderMap::new()), None);
    }

    #[test]
    fn uploading_is_little() {
        let may = |method: Method, path| right_for(&method, path) == Right::Upload;
        assert!(may(Method::POST, "/api/v1/logs"));
        assert!(may(Method::PUT, "/api/v1/logs/ab/inputs"));
        assert!(may(Method::GET, "/api/v1/advice/ab"));
        assert!(!may(Method::PUT, "/api/v1/builds/ab"));
        assert!(!may(Method::GET, "/api/v1/bugs"));
        assert!(!may(Method::GET, "/"));
        assert!(!may(Method::GET, "/metrics"));
    }
}
