//! Pages for people: HTML made here, without scripts. What came from clients is text in them.
mod bug;
mod merge;
mod parts;

use super::Shared;
use super::answer::Answer;
use super::answer::Problem;
use super::answer::blocking;
use super::bugs;
use super::merges;
use crate::Grant;
use crate::html::Html;
use axum::Extension;
use axum::extract::Path;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use parts::failure;
use parts::sparkline;
use parts::time;

const BUGS_SHOWN: usize = 200;
const MERGES_SHOWN: usize = 20;
const LOGS_SHOWN: usize = 50;
/// "These three elements tell failing runs from passing ones."
const TELLING_SHOWN: usize = 3;

pub async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css")], include_str!("style.css")).into_response()
}

pub async fn start(State(app): State<Shared>, Extension(grant): Extension<Grant>) -> Answer<Response> {
    let page = blocking(move || {
        let bugs = app.questions.bugs(&grant.project, BUGS_SHOWN)?;
        let builds = app.store.builds(&grant.project)?;
        let mut page = begin("Failures");
        page.raw("<h1>Failures of project ").text(&grant.project).raw("</h1>");
        if bugs.is_empty() {
            page.raw("<p>No client has sent the log of a run that failed yet: <code>refrain fleet upload</code>.</p>");
        } else {
            page.raw("<table><tr><th>Failure<th class=\"number\">Logs<th>Two weeks<th>Last<th>Build</tr>");
        }
        for bug in &bugs {
            page.raw("<tr><td><a href=\"/bugs/")
                .text(&bug.id)
                .raw("\"><code>")
                .text(&bug.id)
                .raw("</code></a> ");
            failure(&mut page, bug);
            page.raw("<td class=\"number\">").text(bug.logs).raw("<td>");
            sparkline(&mut page, &bug.hours);
            page.raw("<td>").text(time(bug.last_at_ms)).raw("<td><code>");
            page.text(short(&bug.build)).raw("</code>");
            if !bug.is_registered {
                page.raw(" <span class=\"soft\">not registered</span>");
            }
            page.raw("</tr>");
        }
        if !bugs.is_empty() {
            page.raw("</table>");
        }
        page.raw("<h2>Builds that this server may run</h2>");
        if builds.is_empty() {
            page.raw("<p>None: <code>refrain fleet add-build PROG</code>.</p>");
        } else {
            page.raw("<table><tr><th>Build<th class=\"number\">Elements<th class=\"number\">Logs<th>Since</tr>");
            for build in &builds {
                page.raw("<tr><td><code>")
                    .text(short(&build.build))
                    .raw("</code><td class=\"number\">");
                page.text(build.elements).raw("<td class=\"number\">").text(build.logs);
                page.raw("<td>").text(time(build.at_ms)).raw("</tr>");
            }
            page.raw("</table>");
        }
        Ok(page)
    });
    Ok(end(page.await?))
}

pub async fn one_bug(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let page = blocking(move || {
        let bug = bugs::find(&app, &grant, &id)?;
        let mut page = begin("A failure");
        bug::write(&mut page, &app, &grant, &bug)?;
        Ok(page)
    });
    Ok(end(page.await?))
}

pub async fn one_merge(
    State(app): State<Shared>,
    Extension(grant): Extension<Grant>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let page = blocking(move || {
        let merge = merges::known(&app, &grant, &id)?;
        let bug = app.store.bug(&grant.project, &merge.bug)?;
        let bug = bug.ok_or_else(|| Problem::missing("the failure of this merge is gone"))?;
        let mut page = begin("A merge");
        merge::write(&mut page, &app, &grant, &bug, &merge)?;
        Ok(page)
    });
    Ok(end(page.await?))
}

fn begin(title: &'static str) -> Html {
    let mut page = Html::default();
    page.raw("<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>")
        .text(title)
        .raw(" · Refrain fleet</title><link rel=\"stylesheet\" href=\"/style.css\"><header><a href=\"/\">Refrain fleet</a><a href=\"/metrics\">metrics</a></header>");
    page
}

fn end(page: Html) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.finish()).into_response()
}

fn short(hash: &[u8; 32]) -> String {
    crate::hex(&hash[..6])
}
