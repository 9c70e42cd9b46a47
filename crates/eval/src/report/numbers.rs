//! How numbers are written.

/// A share of one: `61.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share of one where there is little room: `61 %`.
pub fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    // Close ticks must not look the same.
    if (percent - percent.round()).abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// Milliseconds, with as many digits as matter.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        _ if ms >= 99.95 => format!("{ms:.0} ms"),
        _ if ms >= 9.995 => format!("{ms:.1} ms"),
        _ => format!("{ms:.2} ms"),
    }
}

/// A difference of shares, in percentage points: `+3.2`.
pub fn points(difference: f64) -> String {
    format!("{:+.1}", difference * 100.0).replace('-', "−")
}

/// One digit behind the point.
pub fn tenths(value: f64) -> String {
    format!("{value:.1}").replace('-', "−")
}

/// Two digits behind the point.
pub fn hundredths(value: f64) -> String {
    format!("{value:.2}").replace('-', "−")
}

/// Three digits behind the point.
pub fn thousandths(value: f64) -> String {
    format!("{value:.3}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        assert_eq!(percent(0.6125), "61.3 %");
        assert_eq!((short_percent(0.6), short_percent(0.625)), ("60 %".into(), "62.5 %".into()));
        assert_eq!(milliseconds(8.123), "8.12 ms");
        assert_eq!(
            (milliseconds(12.34), milliseconds(9.999)),
            ("12.3 ms".into(), "10.0 ms".into())
        );
        assert_eq!(milliseconds(1234.5), "1234 ms");
        assert_eq!((points(0.032), points(-0.5)), ("+3.2".into(), "−50.0".into()));
        assert_eq!(thousandths(-0.53211), "−0.532");
    }
}
