//! Times as text: seconds since 1970 with a fraction, and RFC 3339.

use base::Timestamp;

/// Seconds since 1970, with nine digits behind the point.
pub(super) fn text_of(time: Timestamp) -> String {
    if time.secs < 0 && time.nanos > 0 {
        // Seconds are rounded down: half a second before 1970 is -1 and 500,000,000.
        return format!("-{}.{:09}", -(time.secs + 1), 1_000_000_000 - time.nanos);
    }
    format!("{}.{:09}", time.secs, time.nanos)
}

/// Reads seconds since 1970, with or without a fraction.
pub(super) fn time_of(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') || fraction.contains('.') {
        return None;
    }
    let secs: i64 = whole.parse().ok()?;
    let nanos = nanos_of(fraction)?;
    Some(match (negative, nanos) {
        (false, _) => Timestamp { secs, nanos },
        (true, 0) => Timestamp { secs: -secs, nanos },
        (true, _) => Timestamp { secs: -secs - 1, nanos: 1_000_000_000 - nanos },
    })
}

fn nanos_of(fraction: &str) -> Option<u32> {
    let padded: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    padded.parse().ok()
}

/// Reads a time such as `2024-01-31T12:34:56.789+01:00`.
pub(super) fn time_of_rfc3339(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.trim().split_once(['T', 't'])?;
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !in_range {
        return None;
    }
    let offset = match zone.as_bytes() {
        b"Z" | b"z" => 0,
        [sign, ..] => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
            let secs = i64::from(hours) * 3600 + i64::from(minutes) * 60;
            if *sign == b'-' { -secs } else { secs }
        }
        [] => return None,
    };
    let secs = days_before(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Timestamp { secs, nanos: nanos_of(fraction)? })
}

fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse::<u16>().ok().map(i64::from));
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March, so that the odd
/// day is their last.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    year * 365 + leaps + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::{text_of, time_of, time_of_rfc3339};

    #[test]
    fn times_are_written_and_read_to_the_nanosecond() {
        for (text, secs, nanos) in [
            ("0.000000000", 0, 0),
            ("1700000000.000000001", 1_700_000_000, 1),
            ("-1.000000000", -1, 0),
            ("-0.500000000", -1, 500_000_000),
            ("-1.250000000", -2, 750_000_000),
        ] {
            let time = Timestamp { secs, nanos };
            assert_eq!(text_of(time), text);
            assert_eq!(time_of(text), Some(time), "{text}");
        }
        assert_eq!(time_of("17"), Some(Timestamp { secs: 17, nanos: 0 }));
        assert_eq!(time_of("17.5"), Some(Timestamp { secs: 17, nanos: 500_000_000 }));
        for wrong in ["", "x", "1.2.3", "+5", "1e9", "2024-01-01", "1.-5"] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn calendar_times_are_read() {
        for (text, secs, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2000-02-29T12:00:00Z", 951_825_600, 0),
            ("2023-11-14T22:13:20.000000001Z", 1_700_000_000, 1),
            ("2023-11-14T23:13:20.5+01:00", 1_700_000_000, 500_000_000),
            ("1969-12-31T23:59:59-00:00", -1, 0),
        ] {
            assert_eq!(time_of_rfc3339(text), Some(Timestamp { secs, nanos }), "{text}");
        }
        for wrong in ["", "2024", "2024-01-01", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "T"]
        {
            assert_eq!(time_of_rfc3339(wrong), None, "{wrong}");
        }
    }
}
