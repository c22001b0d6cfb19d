//! One merge: what was tried, what came of it, and what the run came from.
use super::parts::element;
use super::parts::ending;
use super::parts::time;
use crate::Grant;
use crate::html::Html;
use crate::http::App;
use crate::http::answer::Answer;
use crate::http::merges::ATTEMPTS_SHOWN;
use crate::store::BugRow;
use crate::store::MergeRow;
use serde_json::Value;

pub fn write(page: &mut Html, app: &App, grant: &Grant, bug: &BugRow, merge: &MergeRow) -> Answer<()> {
    page.raw("<h1>Merge ")
        .text(merge.id)
        .raw(" of <a href=\"/bugs/")
        .text(&bug.id)
        .raw("\">");
    page.text(ending(bug.failure.outcome))
        .raw("</a>: ")
        .text(&merge.state)
        .raw("</h1><p>");
    page.text(&merge.said)
        .raw("</p><p class=\"soft\">Begun ")
        .text(time(merge.at_ms));
    if let Some(at) = merge.ended_at_ms {
        page.raw(", ended ").text(time(at));
    }
    page.raw("; wanted: <code>").text(&merge.wanted).raw("</code></p>");
    if merge.run.is_some() {
        page.raw("<p><a href=\"/api/v1/merges/")
            .text(merge.id)
            .raw("/run\">Download the merged run</a>, then <code>refrain replay</code> it.</p>");
    }
    let summary: Value = serde_json::from_str(&merge.summary).unwrap_or_default();
    provenance(page, app, grant, bug, &summary)?;
    attempts(page, app, merge)
}

fn provenance(page: &mut Html, app: &App, grant: &Grant, bug: &BugRow, summary: &Value) -> Answer<()> {
    let Some(elements) = summary["candidate"]["elements"].as_array() else {
        return Ok(());
    };
    let known = app.store.elements(&grant.project, &bug.build)?;
    let matters = summary["elements_that_matter"].as_array();
    page.raw("<h2>Where the run comes from</h2><table><tr><th>Element<th>Order from<th>Log<th></tr>");
    for one in elements {
        let id = one["element"]
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .unwrap_or_default();
        page.raw("<tr><td>");
        element(page, id, known.get(&id));
        page.raw("<td>").text(one["source"].as_str().unwrap_or_default());
        page.raw("<td><code>")
            .text(one["log"].as_str().and_then(|log| log.get(..12)).unwrap_or_default());
        page.raw("</code><td>");
        if matters.is_some_and(|ids| ids.contains(&one["element"])) {
            page.raw("matters");
        }
        page.raw("</tr>");
    }
    page.raw("</table>");
    Ok(())
}

fn attempts(page: &mut Html, app: &App, merge: &MergeRow) -> Answer<()> {
    let attempts = app.store.attempts(merge.id, ATTEMPTS_SHOWN)?;
    page.raw("<h2>Attempts</h2><table><tr><th class=\"number\">Number<th>Verdict<th class=\"number\">Relevance<th>Stage<th>Vectors<th>Base</tr>");
    for attempt in &attempts {
        let detail: Value = serde_json::from_str(&attempt.detail).unwrap_or_default();
        page.raw("<tr><td class=\"number\">").text(attempt.number + 1);
        page.raw(if attempt.verdict == "reproduced" {
            "<td class=\"reproduced\">"
        } else {
            "<td>"
        });
        page.text(&attempt.verdict);
        if let Some(why) = detail["why"].as_str() {
            page.raw(": ").text(why);
        }
        page.raw("<td class=\"number\">")
            .text(format_args!("{:.3}", attempt.relevance.unwrap_or_default()));
        page.raw("<td>")
            .text(detail["stage"].as_str().unwrap_or_default())
            .raw("<td>");
        let sources = detail["sources"].as_object().into_iter().flatten();
        let sources: Vec<String> = sources.map(|(source, count)| format!("{count} {source}")).collect();
        page.text(sources.join(", ")).raw("<td><code>");
        page.text(attempt.base.map(|base| crate::hex(&base[..6])).unwrap_or_default())
            .raw("</code></tr>");
    }
    page.raw("</table>");
    Ok(())
}
