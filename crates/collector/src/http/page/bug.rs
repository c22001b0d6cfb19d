//! One failure: what it is, which elements tell it, how far logs cover them, what was merged.
use super::LOGS_SHOWN;
use super::MERGES_SHOWN;
use super::TELLING_SHOWN;
use super::parts::element;
use super::parts::ending;
use super::parts::sparkline;
use super::parts::time;
use super::short;
use crate::ElementInfo;
use crate::Grant;
use crate::hex;
use crate::html::Html;
use crate::http::App;
use crate::http::answer::Answer;
use crate::store::BugRow;
use std::collections::BTreeMap;

pub fn write(page: &mut Html, app: &App, grant: &Grant, bug: &BugRow) -> Answer<()> {
    let known = app.store.elements(&grant.project, &bug.build)?;
    let passing = app.store.passing_logs(&grant.project, &bug.build)?;
    page.raw("<h1>").text(ending(bug.failure.outcome));
    if let Some(frame) = bug.failure.frames.first() {
        page.raw(" in <code>").text(frame).raw("</code>");
    }
    page.raw("</h1><p>")
        .text(bug.logs)
        .raw(" logs of it, ")
        .text(passing)
        .raw(" of runs that passed; first ");
    page.text(time(bug.first_at_ms))
        .raw(", last ")
        .text(time(bug.last_at_ms))
        .raw(" ");
    sparkline(page, &bug.hours);
    page.raw("<br>Build <code>").text(hex(&bug.build)).raw("</code>");
    if !bug.is_registered {
        page.raw(", which is not registered: <code>refrain fleet add-build PROG</code>");
    }
    page.raw("</p>");
    if !bug.failure.text.is_empty() {
        page.raw("<pre>").text(&bug.failure.text).raw("</pre>");
    }
    if !bug.failure.frames.is_empty() {
        page.raw("<h2>Where it was, innermost first</h2><pre>");
        bug.failure
            .frames
            .iter()
            .for_each(|frame| _ = page.text(frame).raw("\n"));
        page.raw("</pre>");
    }
    correlation(page, app, grant, bug, &known)?;
    merges(page, app, bug)?;
    coverage(page, app, grant, bug, &known)?;
    logs(page, app, bug)
}

fn correlation(
    page: &mut Html,
    app: &App,
    grant: &Grant,
    bug: &BugRow,
    known: &BTreeMap<u32, ElementInfo>,
) -> Answer<()> {
    let told = app.questions.correlation(&grant.project, bug, TELLING_SHOWN)?;
    match told.len() {
        0 => {
            page.raw("<h2>No element tells failing runs from passing ones</h2><p>Logs of runs that passed are compared with those that failed; more of either may tell.</p>");
            return Ok(());
        }
        1 => page.raw("<h2>This element tells failing runs from passing ones</h2>"),
        number => page
            .raw("<h2>These ")
            .text(number)
            .raw(" elements tell failing runs from passing ones</h2>"),
    };
    page.raw("<table><tr><th>Element<th class=\"number\">Order in failing runs<th class=\"number\">in passing runs<th class=\"number\">Importance</tr>");
    for one in &told {
        page.raw("<tr><td>");
        element(page, one.element, known.get(&one.element));
        page.raw("<td class=\"number\">")
            .text(one.with.failing)
            .raw(" of ")
            .text(one.recorded.failing);
        page.raw("<td class=\"number\">")
            .text(one.with.passing)
            .raw(" of ")
            .text(one.recorded.passing);
        page.raw("<td class=\"number\">")
            .text(format_args!("{:.2}", one.importance))
            .raw("</tr>");
    }
    page.raw("</table>");
    Ok(())
}

fn merges(page: &mut Html, app: &App, bug: &BugRow) -> Answer<()> {
    let merges = app.store.merges_of_bug(&bug.id, MERGES_SHOWN)?;
    page.raw("<h2>Merges</h2>");
    if merges.is_empty() {
        page.raw("<p>None yet: <code>refrain fleet merge ")
            .text(&bug.id)
            .raw("</code></p>");
        return Ok(());
    }
    page.raw("<table><tr><th>Merge<th>State<th><th>Begun<th></tr>");
    for merge in &merges {
        page.raw("<tr><td><a href=\"/merges/")
            .text(merge.id)
            .raw("\">")
            .text(merge.id)
            .raw("</a><td>");
        page.text(&merge.state)
            .raw("<td>")
            .text(&merge.said)
            .raw("<td>")
            .text(time(merge.at_ms))
            .raw("<td>");
        if merge.run.is_some() {
            page.raw("<a href=\"/api/v1/merges/")
                .text(merge.id)
                .raw("/run\">download the run</a>");
        }
        page.raw("</tr>");
    }
    page.raw("</table>");
    Ok(())
}

fn coverage(page: &mut Html, app: &App, grant: &Grant, bug: &BugRow, known: &BTreeMap<u32, ElementInfo>) -> Answer<()> {
    let coverage = app.questions.coverage(&grant.project, bug)?;
    let recorded = coverage.iter().filter(|one| one.recorded.failing > 0).count();
    page.raw("<h2>Coverage: ")
        .text(recorded)
        .raw(" of ")
        .text(coverage.len())
        .raw(" elements are in failing logs</h2>");
    page.raw("<table><tr><th>Element<th class=\"number\">Failing logs<th class=\"number\">Different orders<th class=\"number\">Passing logs</tr>");
    for one in &coverage {
        page.raw("<tr><td>");
        element(page, one.element, known.get(&one.element));
        page.raw("<td class=\"number\">").text(one.recorded.failing);
        page.raw("<td class=\"number\">").text(one.vectors);
        page.raw("<td class=\"number\">")
            .text(one.recorded.passing)
            .raw("</tr>");
    }
    page.raw("</table>");
    Ok(())
}

fn logs(page: &mut Html, app: &App, bug: &BugRow) -> Answer<()> {
    let logs = app.questions.logs(bug, 0, LOGS_SHOWN)?;
    page.raw("<h2>Logs, the first ")
        .text(logs.len())
        .raw(" of ")
        .text(bug.logs)
        .raw("</h2>");
    page.raw("<table><tr><th>Log<th>Inputs<th class=\"number\">Elements<th class=\"number\">Share<th class=\"number\">Pattern<th>Came</tr>");
    for log in &logs {
        page.raw("<tr><td><code>")
            .text(short(&log.hash))
            .raw("</code><td><code>")
            .text(short(&log.inputs));
        page.raw(if log.has_inputs { "</code> sent" } else { "</code>" });
        page.raw("<td class=\"number\">").text(log.elements);
        page.raw("<td class=\"number\">")
            .text(f64::from(log.share) / 100.0)
            .raw(" %<td class=\"number\">")
            .text(log.number);
        page.raw("<td>").text(time(log.at_ms)).raw("</tr>");
    }
    page.raw("</table>");
    Ok(())
}
