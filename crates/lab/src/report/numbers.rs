//! How numbers are written. A number and its unit stay on one line.

/// A share of one: `61.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1}\u{a0}%", share * 100.0).replace('-', "−")
}

/// A share of one where there is little room: `61 %`.
pub fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    // Close ticks must not look the same.
    if (percent - percent.round()).abs() < 0.05 {
        format!("{percent:.0}\u{a0}%")
    } else {
        format!("{percent:.1}\u{a0}%")
    }
}

/// Milliseconds, with as many digits as matter.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        _ if ms >= 99.95 => format!("{ms:.0}\u{a0}ms"),
        _ if ms >= 9.995 => format!("{ms:.1}\u{a0}ms"),
        _ => format!("{ms:.2}\u{a0}ms"),
    }
}

/// Milliseconds where there is little room: `20 ms`.
pub fn short_milliseconds(ms: f64) -> String {
    // Rounded first: ticks are sums, and a nought must not get a sign.
    let tenths = (ms * 10.0).round() / 10.0;
    format!("{tenths}\u{a0}ms")
}

/// A difference of shares, in percentage points: `+3.2`.
pub fn points(difference: f64) -> String {
    format!("{:+.1}", difference * 100.0).replace('-', "−")
}

/// With so many digits behind the point.
pub fn decimal<const DIGITS: usize>(value: f64) -> String {
    format!("{value:.DIGITS$}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        let cases = [
            (percent(0.6125), "61.3 %"),
            (percent(-0.008), "−0.8 %"),
            (short_percent(0.6), "60 %"),
            (short_percent(0.625), "62.5 %"),
            (milliseconds(8.123), "8.12 ms"),
            (milliseconds(12.34), "12.3 ms"),
            (milliseconds(9.999), "10.0 ms"),
            (milliseconds(1234.5), "1234 ms"),
            (short_milliseconds(20.000001), "20 ms"),
            (short_milliseconds(0.0), "0 ms"),
            (short_milliseconds(2.5), "2.5 ms"),
            (points(0.032), "+3.2"),
            (points(-0.5), "−50.0"),
            (decimal::<3>(-0.53211), "−0.532"),
        ];
        for (written, wanted) in cases {
            assert_eq!(written.replace('\u{a0}', " "), wanted);
        }
    }
}
