//! Whatever a model writes, it is read without a fault, and what is read was offered.
#![allow(missing_docs)]

use proptest::prelude::*;
use tandem_lab::eval::conclusion::{choice, normal_number, number};

/// Text made of what the readers look for, and of anything.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "the answer is",
            "Answer:",
            "\\boxed{",
            "}",
            "####",
            "(",
            ")",
            "b",
            "B",
            "A.",
            " or ",
            "mountain",
            "é",
            "“",
            "**",
            "\\frac",
            "{1}",
            "1",
            "2,000",
            "/",
            "-",
            ".5",
            "=",
            "So ",
            "\n",
            " ",
            "not ",
            "but ",
            "。",
            "\\text{",
            "\u{2009}",
            "%",
            "$",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    // What fails belongs into the tables, not into a file beside them.
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_label_is_one_of_the_labels(text in text(), label in "[a-eA-E1-5é]", choice_text in text()) {
        let labels = ["A".to_owned(), label];
        let texts = ["mountain".to_owned(), choice_text];
        if let Some(said) = choice(&text, &labels, &texts) {
            prop_assert!(labels.contains(&said));
        }
    }

    #[test]
    fn a_number_reads_the_same_twice(text in text()) {
        if let Some(said) = number(&text) {
            prop_assert_eq!(normal_number(&said), said);
        }
    }

    #[test]
    fn a_value_reads_the_same_in_every_writing(above in -9999i64..9999, below in 1i64..999) {
        let slash = normal_number(&format!("{above}/{below}"));
        let brace = normal_number(&format!("\\dfrac{{{above}}}{{{below}}}"));
        prop_assert_eq!(&slash, &brace);
        prop_assert_eq!(&slash, &normal_number(&format!("{}/{}", above * 7, below * 7)));
        prop_assert_eq!(&slash, &normal_number(&format!("${slash} dollars.")));
    }
}
