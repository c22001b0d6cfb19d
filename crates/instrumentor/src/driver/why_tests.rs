use super::*;

#[test]
fn places_are_a_file_and_a_line() {
    let parse = |word: &str| Place::parse(TEXT, OsStr::new(word));
    assert_eq!(parse("./dir/a b.c:7").unwrap().to_string(), "dir/a b.c:7");
    for (word, why) in [
        ("", "FILE:LINE"),
        ("prog.c", "FILE:LINE"),
        ("prog.c:0", "FILE:LINE"),
        ("prog.c:x", "FILE:LINE"),
        (":3", "FILE:LINE"),
        ("prog.c:12:5", "say --why prog.c:12, without the column"),
    ] {
        let error = parse(word).expect_err(word);
        assert!(error.contains(why), "{word}: {error}");
    }
}

#[test]
fn options_have_their_value_behind_them_or_in_them() {
    let option = |word: &str| option(OsStr::new(word));
    assert_eq!(option("--why"), Some((TEXT, None)));
    assert_eq!(option("--why-json=a.c:1"), Some((JSON, Some("a.c:1".into()))));
    assert_eq!(option("--why-not"), None);
    assert_eq!(option("-why"), None);
}

const ACCESS: &str = "/x/a.c\tmain\thelper\t\t8-byte load\tcounter\tstack\tdoes not escape\t3\t9\t0\t";

#[test]
fn answers_of_several_modules_are_one() {
    let text = format!("file\t0\tnone\nfile\t1\tcode\nfile\t0\tcode\naccess\t0\t{ACCESS}\naccess\t0\t{ACCESS}\n");
    let answers = collect(&text, 3).unwrap();
    let place = Place {
        file: "a.c".into(),
        line: 3,
    };
    assert_eq!(
        answers[0].sentences(&place, true),
        [
            "a.c:3:9: 8-byte load of counter in helper, inlined into main (2 times): not observed (stack): does not escape"
        ]
    );
    let statuses: Vec<i32> = answers.iter().map(Answer::status).collect();
    assert_eq!(statuses, [0, EXIT_NOTHING, EXIT_NOT_HERE]);
}

#[test]
fn what_another_pass_wrote_is_refused() {
    for text in ["access\t0\t/x/a.c\n", "file\t9\tcode\n", "file\n", "what\t0\tcode\n"] {
        assert!(collect(text, 1).is_none(), "{text:?}");
    }
}
