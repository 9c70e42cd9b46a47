use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn delay(text: &str) -> Delay {
    text.parse().unwrap()
}

#[test]
fn what_users_write() {
    let phase = |text: &str| delay(text).phases()[0];
    assert_eq!(phase("170ms"), Phase { rtt: Some(ms(170)), ..Phase::default() });
    let full = Phase { rtt: Some(ms(100)), jitter: ms(20), loss: 0.01, lasts: None };
    assert_eq!(phase("0.1s:20ms:1%"), full);
    assert_eq!(phase("0.1s:20ms:1%/2s"), Phase { lasts: Some(ms(2000)), ..full });
    assert_eq!(phase("50:2%").loss, 0.02);
    let bad = ["", "fast", "-1ms", "170ms:20ms:1%:2", "170ms:20ms:200%", "5%", "1e99s"];
    let bad_times = ["20ms/", "20ms/0s", "20ms/5s/5s", "/5s", "20ms,400ms", "20ms/5s,400ms", ","];
    let dead_for_ever = ["dead", "dead/0s", "170ms/1s,dead", "dead:1%/5s"];
    for bad in bad.into_iter().chain(bad_times).chain(dead_for_ever) {
        assert!(bad.parse::<Delay>().is_err(), "{bad}");
    }
}

#[test]
fn delays_repeat_and_spread_as_told() {
    let delay = delay("100ms:20ms");
    let all: Vec<_> = (0..1000).map(|ask| delay.of(ask, Duration::ZERO)).collect();
    assert!(all.iter().all(|d| (ms(80)..=ms(120)).contains(d)));
    let mean = all.iter().sum::<Duration>() / 1000;
    assert!((ms(98)..ms(102)).contains(&mean), "{mean:?}");
    assert_eq!(all[7], delay.of(7, ms(99_999)));
    assert!(all[7] != all[8]);
}

#[test]
fn loss_costs_retransmissions() {
    let some = delay("10ms:0ms:10%");
    let slow = (0..1000).filter(|&ask| some.of(ask, Duration::ZERO) > ms(200)).count();
    assert!((70..130).contains(&slow), "{slow}");
    assert!(delay("10ms:0ms:100%").of(0, Duration::ZERO) < Duration::from_secs(10));
}

#[test]
fn parts_with_a_time_take_turns() {
    let changing = delay("20ms/5s,400ms/1s,60s/60s");
    for (at, expected) in [
        (0, 20),
        (4_999, 20),
        (5_000, 400),
        (5_999, 400),
        (6_000, 60_000),
        (65_999, 60_000),
        (66_000, 20),
        (66_000 * 1000 + 5_500, 400),
    ] {
        assert_eq!(changing.of(3, ms(at)), ms(expected), "at {at} ms");
    }
    assert_eq!(delay("20ms/5s,400ms/5s").rtt(), ms(210));
    assert_eq!(delay("20ms/3s,400ms/1s").rtt(), ms(115));
    assert_eq!(delay("170ms").rtt(), ms(170));
}

#[test]
fn a_list_is_one_network_that_changes_or_several_that_do_not() {
    let networks = |list: &[&str]| {
        let list: Vec<_> = list.iter().map(|text| delay(text)).collect();
        Delay::networks(&list)
    };
    assert!(networks(&[]).unwrap().is_empty());
    assert_eq!(networks(&["0ms", "30ms"]).unwrap(), [delay("0ms"), delay("30ms")]);
    let changing = networks(&["20ms/5s", "400ms:1%/5s"]).unwrap();
    assert_eq!(changing, [delay("20ms/5s,400ms:1%/5s")]);
    assert!(networks(&["20ms/5s", "400ms"]).unwrap_err().contains("lasts"));
}

#[test]
fn what_is_sent_into_a_dead_network_arrives_once_it_is_back() {
    let network = delay("170ms/30s,dead/60s,20ms/10s");
    for (at, expected) in
        [(29_999, 170), (30_000, 60_020), (60_000, 30_020), (89_999, 21), (90_000, 20)]
    {
        assert_eq!(network.of(0, ms(at)), ms(expected), "at {at} ms");
    }
    // Over the end of the turn, and with nothing but dead times in between.
    let network = delay("50ms/10s,dead/5s,dead/5s");
    assert_eq!(network.of(0, ms(12_000)), ms(8_050));
    assert_eq!(network.of(0, ms(17_000)), ms(3_050));
    assert!(network.goes_dead() && !delay("50ms").goes_dead());
    assert_eq!(network.rtt(), ms(50));
    // Nothing but dead times has no other end.
    assert_eq!(delay("dead/5s").of(0, ms(1_000)), ms(4_000));
}

#[test]
fn loss_comes_in_bursts() {
    let network = delay("10ms/9s,10ms:50%/3s");
    let lost = |at| (0..400).filter(|&request| network.of(request, ms(at)) > ms(200)).count();
    assert_eq!(lost(4_000), 0);
    assert!((150..250).contains(&lost(10_000)), "{}", lost(10_000));
}

#[test]
fn recorded_times_come_one_by_one_or_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.txt");
    fs::write(&path, "20ms\n\n 0.4s \n30\n").unwrap();
    let file = format!("@{}", path.display());
    let each = delay(&file);
    let taken: Vec<_> = (0..4).map(|request| each.of(request, ms(99))).collect();
    assert_eq!(taken, [ms(20), ms(400), ms(30), ms(20)]);
    assert_eq!((each.rtt(), each.name()), (ms(150), Some(file.as_str())));
    let lasting = delay(&format!("{file}/2s"));
    let taken = [0, 1_999, 2_000, 4_000, 6_000].map(|at| lasting.of(7, ms(at)));
    assert_eq!(taken, [ms(20), ms(20), ms(400), ms(30), ms(20)]);
    // A recording that lasts is a part like others.
    assert_eq!(delay(&format!("{file}/1s,dead/3s")).of(0, ms(3_500)), ms(2_520));

    for (text, says) in [("20ms\nslow\n", "line 2: \"slow\""), ("\n", "holds no recorded times")] {
        fs::write(&path, text).unwrap();
        let refused = file.parse::<Delay>().unwrap_err();
        assert!(refused.contains("times.txt") && refused.contains(says), "{refused}");
    }
    let absent = "@/none/at/all.txt".parse::<Delay>().unwrap_err();
    assert!(absent.contains("/none/at/all.txt cannot be read"), "{absent}");
    fs::write(&path, "20ms\n").unwrap();
    let mixed = format!("{file},30ms/1s").parse::<Delay>().unwrap_err();
    assert!(mixed.contains("stand alone"), "{mixed}");
    let mixed = Delay::networks(&[delay(&file), delay("30ms/1s")]).unwrap_err();
    assert!(mixed.contains("stand alone"), "{mixed}");
}

#[test]
fn a_network_goes_on_where_it_was() {
    let network = delay("20ms/1s,400ms/1s").after(ms(1_500), 3);
    assert_eq!((network.of(0, ms(0)), network.of(0, ms(600))), (ms(400), ms(20)));
    let spread = delay("100ms:20ms");
    assert_eq!(spread.clone().after(ms(0), 7).of(1, ms(0)), spread.of(8, ms(0)));
    assert_eq!((spread.name(), delay("100ms").name()), (Some("100ms:20ms"), None));
}

#[test]
fn the_first_request_starts_the_clock() {
    let begun = Instant::now();
    let network = Network::default();
    let next = |at| network.0.lock().unwrap().next(begun + ms(at));
    network.simulate(Some(delay("20ms/1s,400ms/1s")));
    // Models are loaded before anything is asked.
    for (at, expected) in [(1500, 20), (2499, 20), (2500, 400), (3499, 400), (3500, 20)] {
        assert_eq!(next(at), Some(ms(expected)), "at {at} ms");
    }
    // It begins again where it is set again.
    network.simulate(Some(delay("20ms/1s,400ms/1s")));
    assert_eq!(next(4900), Some(ms(20)));
    network.simulate(None);
    assert_eq!(next(4950), None);
}
