//! The server, as its clients see it: requests with a token, and sentences for whatever goes wrong.
use crate::trouble::Result;
use crate::trouble::Trouble;
use run_store::shown_path;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use ureq::Agent;
use ureq::Body;
use ureq::http::Response;

/// No honest answer is longer, but for a run.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const RUN_BYTES_MAX: u64 = 16 << 30;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that says nothing for so long is away.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
const TOKEN_BYTES_MAX: u64 = 4096;

pub struct Remote {
    agent: Agent,
    url: String,
    token: String,
}

/// The first token of a file, which may be the server's: `TOKEN`, or `PROJECT TOKEN` and what that may do.
pub fn read_token(path: &Path) -> Result<String> {
    let failed = |why: String| Trouble::unusable(format!("cannot read the token in {}: {why}", shown_path(path)));
    let file = fs::File::open(path).map_err(|e| failed(e.to_string()))?;
    let mut text = String::new();
    file.take(TOKEN_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|e| failed(e.to_string()))?;
    match token_in(&text) {
        Some(token) => Ok(token.to_owned()),
        None => Err(failed("it has to have one line of printable characters".to_owned())),
    }
}

fn token_in(text: &str) -> Option<&str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let words = words.into_iter().find(|words| !words.is_empty())?;
    let token = match words.as_slice() {
        [token] | [_, token, ..] => *token,
        [] => return None,
    };
    token.bytes().all(|byte| byte.is_ascii_graphic()).then_some(token)
}

impl Remote {
    pub fn new(url: &str, token_file: &Path) -> Result<Remote> {
        let url = url.trim_end_matches('/');
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(Trouble::unusable(format!(
                "--to {url}: the address of a server begins with http:// or https://"
            )));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .user_agent(concat!("refrain/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Remote {
            agent,
            url: url.to_owned(),
            token: read_token(token_file)?,
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        let request = self
            .agent
            .get(self.address(path))
            .header("authorization", self.bearer());
        self.json(request.call())
    }

    /// What is no JSON.
    pub fn get_bytes(&self, path: &str) -> Result<Vec<u8>> {
        let request = self
            .agent
            .get(self.address(path))
            .header("authorization", self.bearer());
        let response = self.accepted(request.call())?;
        let body = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_vec().map_err(|e| self.away(&e))
    }

    pub fn post(&self, path: &str, value: &Value) -> Result<Value> {
        let request = self
            .agent
            .post(self.address(path))
            .header("authorization", self.bearer());
        self.json(request.content_type("application/json").send(value.to_string()))
    }

    pub fn post_bytes(&self, path: &str, bytes: &[u8]) -> Result<Value> {
        let request = self
            .agent
            .post(self.address(path))
            .header("authorization", self.bearer());
        self.json(request.content_type("application/octet-stream").send(bytes))
    }

    pub fn put(&self, path: &str, bytes: &[u8]) -> Result<Value> {
        let request = self
            .agent
            .put(self.address(path))
            .header("authorization", self.bearer());
        self.json(request.content_type("application/octet-stream").send(bytes))
    }

    /// Copies what the server has there into a file.
    pub fn download(&self, path: &str, to: &Path) -> Result<()> {
        let request = self
            .agent
            .get(self.address(path))
            .header("authorization", self.bearer());
        let response = self.accepted(request.call())?;
        let mut body = response.into_body().into_with_config().limit(RUN_BYTES_MAX).reader();
        let failed = |e: std::io::Error| Trouble::unusable(format!("cannot write {}: {e}", shown_path(to)));
        let mut file = run_store::create_file(to).map_err(failed)?;
        std::io::copy(&mut body, &mut file).map_err(failed)?;
        Ok(())
    }

    fn address(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.url)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn json(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Value> {
        let text = self.text(self.accepted(answer)?)?;
        match text.trim() {
            "" => Ok(Value::Null),
            text => serde_json::from_str(text).map_err(|_| self.stranger()),
        }
    }

    fn text(&self, response: Response<Body>) -> Result<String> {
        let body = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_string().map_err(|e| self.away(&e))
    }

    fn accepted(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Response<Body>> {
        let response = answer.map_err(|e| match e {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                Trouble::unusable(format!("{} is not the address of a server", self.url))
            }
            other => self.away(&other),
        })?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let is_json = response
            .headers()
            .get("content-type")
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let text = self.text(response).unwrap_or_default();
        let said = serde_json::from_str::<Value>(&text).ok();
        let said = said.as_ref().and_then(|value| value["error"].as_str());
        Err(match (status, said) {
            (401, _) => Trouble::unusable(format!(
                "the server at {} does not take this token; ask its operator for the one it was started with (--token-file)",
                self.url
            )),
            (429 | 500..600, Some(said)) => Trouble::passing(format!("the server at {} says: {said}", self.url)),
            (429 | 500..600, None) => {
                Trouble::passing(format!("the server at {} failed with status {status}", self.url))
            }
            (_, Some(said)) => Trouble::unusable(format!("the server at {} says: {said}", self.url)),
            _ if is_json => Trouble::unusable(format!("the server at {} refuses with status {status}", self.url)),
            _ => self.stranger(),
        })
    }

    fn away(&self, error: &ureq::Error) -> Trouble {
        Trouble::passing(format!(
            "no server answers at {}: {error}; is `refrain fleet serve` running there?",
            self.url
        ))
    }

    fn stranger(&self) -> Trouble {
        Trouble::unusable(format!("what answers at {} is not a server of a fleet", self.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_files_of_clients_and_servers() {
        assert_eq!(token_in("abcdefghijklmnop\n"), Some("abcdefghijklmnop"));
        assert_eq!(
            token_in("# ours\n\nshop 0123456789abcdef upload # all\n"),
            Some("0123456789abcdef")
        );
        assert_eq!(token_in("\n# nothing\n"), None);
        assert_eq!(token_in("caf\u{e9}"), None);
    }
}
