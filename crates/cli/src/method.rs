//! Which method and scope a command line of `record` asks for: what `run_model`'s table of methods has, or the reason why not.
use crate::Failure;
use replayer::Method;
use run_model::PLANNED;
use run_model::Users;
use run_store::Scope;

/// Set by refrain's own tests: methods that are theirs alone may be used.
const TESTS_VARIABLE: &str = "REFRAIN_TEST_METHODS";

/// What `--help` says about `--method`.
pub fn help() -> String {
    let mut text =
        String::from("How it is recorded; what is not light or inputs is there to compare (docs/methods.md). It logs");
    for method in offered() {
        text.push_str(&format!("\n{:<7} {}", method.name(), method.says()));
    }
    text.push_str("\nIf absent: the one that observes --scope");
    text
}

/// The method and the scope, of which either may be left to the other.
pub fn chosen(method: Option<&str>, scope: Option<&str>) -> Result<(Method, Scope), Failure> {
    let is_test = std::env::var_os(TESTS_VARIABLE).is_some();
    choose(method, scope, is_test).map_err(Failure::usage)
}

fn choose(method: Option<&str>, scope: Option<&str>, is_test: bool) -> Result<(Method, Scope), String> {
    let scope = scope.map(scope_of).transpose()?;
    let Some(name) = method else {
        let scope = scope.unwrap_or(Scope::Memory);
        return Ok((Method::of_scope(scope), scope));
    };
    let method = Method::from_name(name).ok_or_else(|| unknown(name))?;
    if method.users() == Users::Tests && !is_test {
        return Err(format!(
            "--method {name} is for refrain's own tests; there are {}",
            listed(offered().map(Method::name))
        ));
    }
    let scopes = method.scopes();
    let scope = scope.unwrap_or(scopes[0]);
    if scopes.contains(&scope) {
        return Ok((method, scope));
    }
    Err(format!(
        "--method {name} observes {}: it needs --scope {}; --scope {} is for --method {}",
        listed(scopes.iter().map(|scope| observed(*scope))),
        listed(scopes.iter().map(|scope| scope.name())).replace(" and ", " or "),
        scope.name(),
        Method::of_scope(scope).name()
    ))
}

fn scope_of(name: &str) -> Result<Scope, String> {
    Scope::from_name(name).ok_or_else(|| format!("'{name}' is not a scope; choose inputs, sync or memory"))
}

fn unknown(name: &str) -> String {
    let offered = listed(offered().map(Method::name));
    if PLANNED.contains(&name) {
        format!("--method {name} is not in this version; {offered} are")
    } else {
        format!("'{name}' is not a method; there are {offered}")
    }
}

fn offered() -> impl Iterator<Item = Method> {
    let methods = Method::ALL.iter().copied();
    methods.filter(|method| method.users() == Users::Everybody)
}

fn observed(scope: Scope) -> &'static str {
    match scope {
        Scope::Inputs => "inputs alone",
        Scope::Sync => "synchronisation",
        Scope::Memory => "accesses to memory",
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: &str, scope: Option<&str>) -> String {
        choose(Some(method), scope, false).expect_err("it is refused")
    }

    #[test]
    fn either_is_left_to_the_other() {
        let chosen = |method, scope| choose(method, scope, false);
        assert_eq!(chosen(None, None), Ok((Method::Light, Scope::Memory)));
        assert_eq!(chosen(None, Some("sync")), Ok((Method::Light, Scope::Sync)));
        assert_eq!(chosen(None, Some("inputs")), Ok((Method::Inputs, Scope::Inputs)));
        assert_eq!(chosen(Some("inputs"), None), Ok((Method::Inputs, Scope::Inputs)));
        assert_eq!(
            chosen(Some("inputs"), Some("inputs")),
            Ok((Method::Inputs, Scope::Inputs))
        );
        assert_eq!(chosen(Some("oreo"), None), Ok((Method::Oreo, Scope::Memory)));
        assert_eq!(chosen(Some("light"), Some("sync")), Ok((Method::Light, Scope::Sync)));
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        assert_eq!(
            refused("leap", Some("sync")),
            "--method leap observes accesses to memory: it needs --scope memory; --scope sync is for --method light"
        );
        assert_eq!(
            refused("inputs", Some("memory")),
            "--method inputs observes inputs alone: it needs --scope inputs; --scope memory is for --method light"
        );
        assert_eq!(
            refused("light", Some("inputs")),
            "--method light observes accesses to memory and synchronisation: it needs --scope memory or sync; --scope inputs is for \
             --method inputs"
        );
        assert_eq!(
            refused("light", Some("all")),
            "'all' is not a scope; choose inputs, sync or memory"
        );
    }

    #[test]
    fn what_is_not_there_is_named() {
        let there = "light, leap, stride, oreo, inputs and coop";
        assert_eq!(
            refused("magic", None),
            format!("'magic' is not a method; there are {there}")
        );
        for planned in PLANNED {
            assert_eq!(
                refused(planned, None),
                format!("--method {planned} is not in this version; {there} are")
            );
        }
    }

    #[test]
    fn what_is_for_tests_is_for_tests() {
        let theirs = || Method::ALL.iter().filter(|method| method.users() == Users::Tests);
        assert_ne!(theirs().count(), 0);
        for method in theirs() {
            let name = method.name();
            let why = refused(name, None);
            assert!(
                why.starts_with(&format!("--method {name} is for refrain's own tests; there are light")),
                "{why}"
            );
            assert_eq!(choose(Some(name), None, true), Ok((*method, method.scopes()[0])));
        }
    }

    #[test]
    fn help_names_each_method_that_is_offered() {
        let help = help();
        for method in Method::ALL {
            let is_named = help.contains(&format!("\n{} ", method.name()));
            assert_eq!(is_named, method.users() == Users::Everybody, "{help}");
        }
    }
}
