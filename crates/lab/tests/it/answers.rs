//! What answers say, on the kinds of text that small models really write.
#![allow(missing_docs)]

use tandem_lab::eval::conclusion::{choice, number};

/// Reads every text and names all that were read wrongly; an empty string stands for no answer.
#[track_caller]
fn check(says: impl Fn(&str) -> Option<String>, table: &[(&str, &str)]) {
    let wrong = |&(text, wanted): &(&str, &str)| {
        let said = says(text).unwrap_or_default();
        (said != wanted).then(|| format!("{text:?} reads {said:?}, should be {wanted:?}"))
    };
    let wrong: Vec<_> = table.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn strings<const N: usize>(texts: [&str; N]) -> [String; N] {
    texts.map(str::to_owned)
}

/// Of the question: where do people dig for coal?
fn says(text: &str) -> Option<String> {
    let labels = strings(["A", "B", "C", "D", "E"]);
    let texts = strings(["valley", "mountain", "bus stop", "café", "a mountain range"]);
    choice(text, &labels, &texts)
}

#[test]
fn a_choice_as_it_was_asked_for() {
    check(
        says,
        &[
            ("Coal is dug. Therefore, the answer is mountain (b).", "B"),
            ("Therefore, the answer is mountain (B)", "B"),
            ("Therefore, the answer is (b) mountain.", "B"),
            ("Therefore, the answer is (b)", "B"),
            ("Therefore, the answer is café (d).", "D"),
            ("The best choice is valley. It is deep. Therefore, the answer is valley (a).", "A"),
        ],
    );
}

#[test]
fn a_label_in_other_dress() {
    check(
        says,
        &[
            ("The answer is B.", "B"),
            ("The answer is: C", "C"),
            ("The answer is **D**", "D"),
            ("The answer is **(d) café**.", "D"),
            ("the answer is \"b\".", "B"),
            ("The answer is “B”.", "B"),
            ("The answer is `e`", "E"),
            ("The answer is B because coal is in rock.", "B"),
            ("The answer is b since coal is in rock.", "B"),
            ("The answer is B mountain", "B"),
            ("The answer is B) mountain", "B"),
            ("The answer is B - mountain", "B"),
            ("The answer is option (c).", "C"),
            ("The answer is (option c).", "C"),
            ("The correct answer is option B: mountain.", "B"),
            ("The correct option is (B).", "B"),
            ("The right choice is B.", "B"),
            ("My answer is most likely (b).", "B"),
            ("The answer to the question is mountain (b).", "B"),
            ("Answer: B", "B"),
            ("**Answer:** B", "B"),
            ("**Answer**: (b) mountain", "B"),
            ("Final Answer: The correct answer is mountain (b).", "B"),
            ("The answer is:\n\n(B) mountain", "B"),
            ("The answer is\nB", "B"),
            ("So the answer is \\boxed{B}.", "B"),
            ("$\\boxed{\\text{B}}$", "B"),
            ("\\boxed{(b) mountain}", "B"),
            ("The answer is \\( B \\).", "B"),
            ("The answer is （b）。", "B"),
            ("The answer is 山 (b).", "B"),
            ("#### B", "B"),
        ],
    );
}

#[test]
fn nothing_but_a_choice() {
    check(
        says,
        &[
            ("(B)", "B"),
            ("B.", "B"),
            ("b", "B"),
            ("**B**", "B"),
            ("[C]", "C"),
            ("B) mountain", "B"),
            ("(b) mountain.", "B"),
            ("- (b) mountain", "B"),
            ("mountain", "B"),
            ("Mountain.", "B"),
            ("B. Mountain\n\nExplanation: valleys are low.", "B"),
            ("(b) because coal is in rock.", "B"),
            ("Coal is in rock, and rock in mountains.\n\n(b) mountain", "B"),
            ("Coal is in rock, and rock in mountains. (b)", "B"),
            ("The best choice is (b) mountain.", "B"),
        ],
    );
}

#[test]
fn the_text_of_a_choice() {
    check(
        says,
        &[
            ("Therefore, the answer is mountain.", "B"),
            ("Therefore, the answer is a mountain.", "B"),
            ("Therefore, the answer is the Mountain, where rock is.", "B"),
            ("Therefore, the answer is a mountain range.", "E"),
            ("Therefore, the answer is 'bus stop'.", "C"),
            ("Therefore, the answer is a \"mountain\".", "B"),
            ("Therefore, the answer is bus  stop because buses stop.", "C"),
            ("Therefore, the answer is CAFÉ!", "D"),
        ],
    );
}

#[test]
fn a_label_counts_before_a_text() {
    check(
        says,
        &[
            ("Therefore, the answer is valley (b).", "B"),
            ("Therefore, the answer is a very high mountain (b).", "B"),
            ("Therefore, the answer is sea (b).", "B"),
            ("Therefore, the answer is mountain (b), not valley (a).", "B"),
            ("Therefore, the answer is B, not (a).", "B"),
            ("Therefore, the answer is mountain because it is not (a).", "B"),
            ("Therefore, the answer is higher than valley (a), as is (b).", "B"),
        ],
    );
}

#[test]
fn the_choice_before_the_words() {
    check(
        says,
        &[
            ("Coal is in rock, so (b) is the correct answer.", "B"),
            ("So B is the answer.", "B"),
            ("I think that a mountain is the best choice.", "B"),
            ("Valleys are low. Therefore, mountain (b) is the right answer because of rock.", "B"),
            ("(b) mountain is the correct option", "B"),
            ("A mountain range is the correct answer.", "E"),
            ("B is the correct answer. (a) is not the correct answer.", "B"),
            ("Neither (a) nor (b) is the correct answer.", ""),
            ("(a) or (b) is the correct answer.", ""),
            ("This is the correct answer.", ""),
            ("Rock is the answer.", ""),
        ],
    );
}

#[test]
fn a_last_sentence_that_ends_in_a_choice() {
    check(
        says,
        &[
            ("The most likely place would be a mountain (b).", "B"),
            ("Coal is in rock. People dig in the bus stop (c)", "C"),
            ("It must be a mountain range (e).", "E"),
            ("It would be a valley (b).", ""),
            ("It would be deep (b).", ""),
            ("It is not the valley (a).", ""),
            ("It isn't the valley (a).", ""),
            ("It could be the valley (a) or the mountain (b).", ""),
            ("It could be the valley (a). There is more to say.", ""),
            ("It could be the valley (a), and", ""),
        ],
    );
}

#[test]
fn of_two_conclusions_the_last() {
    check(
        says,
        &[
            ("The answer is valley (a). Wait: the answer is mountain (b).", "B"),
            ("Answer: A\nExplanation: no. The correct answer is B.", "B"),
            ("The answer is (b). The answer is not (a).", "B"),
            ("The answer is not (a) but (b).", "B"),
            ("The answer isn't (a). The answer is (b).", "B"),
        ],
    );
}

#[test]
fn loops_and_where_they_were_cut_off() {
    check(
        says,
        &[
            ("The answer is mountain (b).\nThe answer is mountain (b).\nThe answer is", "B"),
            ("The answer is (b).assistant\nuser\nTherefore, the answer is mountain (b).as", "B"),
            ("The answer is B.Human: Where do people dig?", "B"),
            ("Therefore, the answer is mountain (b). Therefore, the answer is moun", "B"),
            ("Therefore, the answer is mountain (b). Therefore, the answer is sea (", "B"),
            ("Therefore, the answer is mountain (", "B"),
            ("Therefore, the answer is mountain (b", "B"),
        ],
    );
}

#[test]
fn no_choice() {
    check(
        says,
        &[
            ("", ""),
            ("I do not know.", ""),
            ("Coal is found in rock. Rock is found in mountains.", ""),
            ("the answer is", ""),
            ("Therefore, the answer is answer (label).", ""),
            ("Therefore, the answer is none of the above.", ""),
            ("The answer is (a). No: the answer is none of the above.", ""),
            ("The answer is (z).", ""),
            ("The answer is F.", ""),
            ("The answer is blue", ""),
            ("The answer is apple", ""),
            ("The answer is a river.", ""),
            ("The answer is a-frame.", ""),
            ("The answer is 7 A.M. today", ""),
            ("The answer is A.M. today", ""),
            ("The answer is I think so", ""),
            ("The answer is mountainous.", ""),
            ("The answer is mountain goats.", ""),
            ("The answer is mountain-side.", ""),
            ("The answer is not (a).", ""),
            ("The answer is C_{2}H_{6}.", ""),
            ("The answer is C + O -> CO.", ""),
            ("The answer is B -> C.", ""),
            ("The answer is (a) or (b).", ""),
            ("The answer is valley (a) or mountain (b).", ""),
            ("The answer is both (a) and (b).", ""),
            ("The answer is B or C.", ""),
            ("The answer is A, B", ""),
            ("The answer is valley, mountain.", ""),
            ("The answer is (a) (b) (c) (d) (e).", ""),
            ("(a) valley\n(b) mountain\n(c) bus stop\n(d) café\n(e) a mountain range", ""),
            ("A valley is low.", ""),
            ("Valley and mountain are both good.", ""),
            ("People dig in a mountain (b) as coal is found in it.", ""),
            ("The best choice is valley. The answer must be a place where people", ""),
            ("The answer must be a place. No answer is right (a).", ""),
            ("The answer is a deep place. Some say valley (a).", ""),
            ("é – the answer is", ""),
            ("答案是山。", ""),
        ],
    );
}

#[test]
fn numbers_as_they_were_asked_for() {
    check(
        number,
        &[
            ("9 * 2 = 18. The answer is \\boxed{18}.", "18"),
            ("\\boxed{1} and then \\boxed{2}", "2"),
            ("\\[ \\boxed{18} \\]", "18"),
            ("$$\\boxed{\\$18.00}$$", "18"),
            ("\\boxed{2,317}", "2317"),
            ("\\boxed{2{,}317.50}", "2317.5"),
            ("\\boxed{\\frac{1}{2}}", "0.5"),
            ("\\boxed{\\dfrac{2}{3}}", "2/3"),
            ("\\boxed{-3}", "-3"),
            ("\\boxed{42\\text{ apples}}", "42"),
            ("\\boxed{\\text{42 apples}}", "42"),
            ("\\boxed{x = 42}", "42"),
            ("\\boxed{20\\%}", "20"),
            ("\\boxed{90^\\circ}", "90"),
            ("\\boxed{5 \\text{ cm}^2}", "5"),
            ("\\boxed {7}", "7"),
            ("\\boxed{2\\sqrt{3}}", "2\\sqrt{3}"),
            ("\\boxed{3\\frac{1}{2}}", "3.5"),
            ("The answer is 5. So \\boxed{6}. The answer is 7.", "6"),
        ],
    );
}

#[test]
fn boxes_that_were_not_closed() {
    check(
        number,
        &[
            ("\\boxed{18}\n\\boxed{18}\n\\boxed{1", "18"),
            ("The answer is 12. The answer is \\boxed{", "12"),
            ("\\boxed{} \\boxed{ }. The answer is 4.", "4"),
            ("\\boxed{7", ""),
        ],
    );
}

#[test]
fn numbers_in_words() {
    check(
        number,
        &[
            ("#### 42", "42"),
            ("5 + 3 = 8\n#### 1,200", "1200"),
            ("The answer is 42 apples.", "42"),
            ("The answer is $18.50.", "18.5"),
            ("The answer is **$18**.", "18"),
            ("The answer is: -7", "-7"),
            ("The answer is −7.", "-7"),
            ("The answer is 1/2.", "0.5"),
            ("The answer is about 3.5 million people.", "3500000"),
            ("The answer is 5 + 3 = 8 apples.", "8"),
            ("The answer is that she has 12 eggs left for 2 days.", "12"),
            ("Answer: 10 km/h", "10"),
            ("**Final answer:** 1,250.5", "1250.5"),
            ("The answer is:\n\n18", "18"),
            ("The answer is:\n- 18 eggs", "18"),
            ("The final answer is £1,000,000.", "1000000"),
            ("The answer is \\(\\frac{3}{4}\\).", "0.75"),
            ("The answer is 5. No, the answer is 6.", "6"),
            ("The answer is 6. The answer is not 5.", "6"),
            ("The answer is 6. The answer is", "6"),
            ("Mr. Lee's answer is 6.", "6"),
        ],
    );
}

#[test]
fn nothing_but_a_number() {
    check(number, &[("42", "42"), (" $42.00\n", "42"), ("**42**", "42"), ("42 apples", "42")]);
}

#[test]
fn the_last_sentence_concludes() {
    check(
        number,
        &[
            ("He has 5 and 3. Therefore, he has 8 apples.", "8"),
            ("First 5.\nThen 3.\nSo, in total, she pays $8.00", "8"),
            ("9 * 2 = 18\n16 - 3 - 4 = 9\n9 * 2 = $18", "18"),
            ("Thus Mrs. Lee earns 9 * 2 = 18 dollars every day for 2 weeks.", "18"),
            ("Total: 12", "12"),
            ("So they owe -3.", "-3"),
        ],
    );
}

#[test]
fn no_number() {
    check(
        number,
        &[
            ("", ""),
            ("I do not know.", ""),
            ("The answer is many.", ""),
            ("The answer is 5 or 6.", ""),
            ("The answer is 5 + 3", ""),
            ("The answer is not 5.", ""),
            ("The answer must be 5.", ""),
            ("So he has 5 + 3", ""),
            ("So he has 5 - 3.", ""),
            ("So he pays 2 * 4 = 8. Then he buys 3 more", ""),
            ("So she has 3 left.\nThen she buys 5 more.\nThus", ""),
            ("So she has 3 apples and then she", ""),
            ("There are 5 apples and 3 pears.", ""),
            ("He walks 3 miles in 2 hours", ""),
            ("x = ", ""),
            ("Step 1: read the problem", ""),
            ("In room B12 there are some. So it is B12.", ""),
            ("The answer is eight.", ""),
            ("七", ""),
        ],
    );
}

#[test]
fn choices_that_are_numbers() {
    let (labels, texts) = (strings(["1", "2", "3", "4"]), strings(["-5", "5", "0.5", "$50"]));
    check(
        |text| choice(text, &labels, &texts),
        &[
            ("The answer is 5 (2).", "2"),
            ("The answer is (2).", "2"),
            ("The answer is 2.", "2"),
            ("The answer is 2", "2"),
            ("The answer is -5.", "1"),
            ("The answer is 5.", "2"),
            ("The answer is $50.", "4"),
            ("The answer is 0.5.", "3"),
            ("The answer is 2.5.", ""),
            ("The answer is 2 apples.", ""),
            ("The answer is 3,000.", ""),
            ("The answer is 3%.", ""),
            ("The answer is 5/7.", ""),
        ],
    );
}

#[test]
fn choices_that_deny() {
    let labels = strings(["A", "B", "C"]);
    let texts = strings(["not listening", "listening", "none of the above"]);
    check(
        |text| choice(text, &labels, &texts),
        &[
            ("The answer is not listening (a).", "A"),
            ("The answer is not listening.", "A"),
            ("The answer is not (a).", ""),
            ("The answer is not B but A.", "A"),
            ("The answer is none of the above.", "C"),
        ],
    );
}

#[test]
fn choices_that_read_the_same() {
    let labels = strings(["A", "B", "C", "D", "E"]);
    let texts = strings(["pond", "pond.", "vitamin (c)", "WW or ww", "Ww or ww"]);
    check(
        |text| choice(text, &labels, &texts),
        &[
            ("The answer is pond.", ""),
            ("The answer is pond (b).", "B"),
            ("The answer is vitamin (c).", "C"),
            ("The answer is vitamin (c) (b).", "B"),
            ("The answer is WW or ww.", "D"),
            ("The answer is Ww or ww.", "E"),
            ("The answer is ww or ww.", ""),
        ],
    );
}
