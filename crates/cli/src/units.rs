//! Sizes and times as people write them.

use std::time::Duration;

use base::{ByteRange, Name};
use mount::{Attributes, Commit, Last, LogFormat};

/// The most bytes to cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSize(pub(crate) u64);

/// The most bytes a second; none if 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u64);

/// `512MiB`, `10G`, `4096`: units are powers of 1,024 unless they end in `B` without `i`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let number: u64 = number.parse().map_err(|_| format!("{text}: not a size like 512MiB"))?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("{text}: not a size like 512MiB")),
    };
    number.checked_mul(factor).ok_or_else(|| format!("{text}: too large"))
}

/// `0-64KiB`: from a byte to the one before another.
pub(crate) fn region(text: &str) -> Result<ByteRange, String> {
    let wrong = || format!("{text}: not a region like 0-64KiB");
    let (start, end) = text.split_once('-').ok_or_else(wrong)?;
    let at = |text: &str| bytes(text).map_err(|_| wrong());
    ByteRange::new(at(start)?, at(end)?).ok_or_else(wrong)
}

/// `1s`, `500ms`, `5min`, `2h`, `1d`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text}: not a time like 500ms, 10s, 5min, 2h or 1d");
    let (number, unit) = split(text);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds: u64 = match unit {
        "ms" => return Ok(Duration::from_millis(number)),
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// `644`: permission bits, in octal as `chmod` takes them.
pub(crate) fn permissions(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        Ok(_) | Err(_) => Err(format!("{text}: not permissions in octal like 644")),
    }
}

/// `true`, `yes`, `on`, `1`, and their opposites.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!("{text}: neither true nor false")),
    }
}

/// `close` or `async`.
pub(crate) fn commit(text: &str) -> Result<Commit, String> {
    match text {
        "close" => Ok(Commit::Close),
        "async" => Ok(Commit::Async),
        _ => Err(format!("{text}: neither `close` nor `async`")),
    }
}

/// `.exitcode:_SUCCESS`: names of files. Who writes a pattern would wait for a file of that very name.
pub(crate) fn last(text: &str) -> Result<Last, String> {
    let names = text.split(':').map(|name| {
        if name.contains(['*', '?', '[']) {
            return Err(format!(
                "{name}: whole names are needed, with colons between them, and no patterns"
            ));
        }
        Name::new(name.as_bytes()).map_err(|_| format!("{text}: {name:?} is no name of a file"))
    });
    names.collect::<Result<_, _>>().map(Last::named)
}

/// `keep` or `off`.
pub(crate) fn attributes(text: &str) -> Result<Attributes, String> {
    match text {
        "keep" => Ok(Attributes::Kept),
        "off" => Ok(Attributes::Off),
        _ => Err(format!("{text}: neither `keep` nor `off`")),
    }
}

/// `0.005`: what something costs.
pub(crate) fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if price.is_finite() && 0.0 <= price => Ok(price),
        Ok(_) | Err(_) => Err(format!("{text}: not a price like 0.005")),
    }
}

/// `text`, `json` or `journald`.
pub(crate) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        "journald" => Ok(LogFormat::Journal),
        _ => Err(format!("{text}: neither text, json nor journald")),
    }
}

/// `info`, or `info,quayfs_vfs=debug`: a level, or levels of parts of the program.
pub(crate) fn log_level(text: &str) -> Result<String, String> {
    mount::check_log_filter(text)?;
    Ok(text.to_owned())
}

/// `512 MiB`: a size as people read it.
pub(crate) fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.max(1).ilog2() / 10).min(4);
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    let unit = UNITS[power as usize];
    match (power, tenths % 10) {
        (0, _) | (_, 0) => format!("{} {unit}", tenths / 10),
        (_, tenth) => format!("{}.{tenth} {unit}", tenths / 10),
    }
}

/// `12.5 MiB/s`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate, rounded")]
pub(crate) fn show_rate(bytes_per_second: f64) -> String {
    format!("{}/s", show_bytes(bytes_per_second.max(0.0) as u64))
}

/// `1,234,567`.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `3 files`.
pub(crate) fn show_plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{} {what}s", show_count(count)) }
}

/// `12 µs`, `1.5 ms`, `2.3 s`: as exact as a look needs it.
pub(crate) fn show_millis(millis: f64) -> String {
    match millis {
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 100_000.0 => format!("{:.1} s", ms / 1000.0),
        ms => format!("{:.0} s", ms / 1000.0),
    }
}

/// A moment, in seconds since 1970, such as `2026-11-29 00:38 UTC`.
pub(crate) fn show_utc(secs: i64) -> String {
    let (days, minutes) = (secs.div_euclid(86_400), secs.rem_euclid(86_400) / 60);
    // Days from the first of March of the year 0, in cycles of 400 years: a leap day is the last of its year.
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_cycle = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month =
        if months_since_march < 10 { months_since_march + 3 } else { months_since_march - 9 };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// `3 d 4 h`, `5 min 20 s`, `7 s`: the two largest units.
pub(crate) fn show_time(secs: u64) -> String {
    let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, _) => format!("{minutes} min {} s", secs % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        (_, _, _) => format!("{days} d {hours} h"),
    }
}

/// `0.0123 USD`: small sums with more digits.
pub(crate) fn show_money(sum: f64, currency: &str) -> String {
    if sum < 1.0 { format!("{sum:.4} {currency}") } else { format!("{sum:.2} {currency}") }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::ByteRange;

    use super::{
        bytes, duration, permissions, region, show_bytes, show_count, show_millis, show_money,
        show_time,
    };

    #[test]
    fn moment_is_a_date_of_the_calendar() {
        for (secs, want) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_912_680, "2026-11-29 00:38 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(super::show_utc(secs), want);
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, want) in [
            ("4096", 4096),
            ("512MiB", 512 << 20),
            ("10G", 10 << 30),
            ("1 TiB", 1 << 40),
            ("5MB", 5_000_000),
        ] {
            assert_eq!(bytes(text), Ok(want));
        }
        for text in ["", "x", "-1", "1.5G", "3 parsecs", "99999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("5min"), Ok(Duration::from_mins(5)));
        assert_eq!(duration("1d"), Ok(Duration::from_hours(24)));
        for text in ["soon", "forever", "1w", "1.5h", "999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn regions_have_a_beginning_and_a_greater_end() {
        assert_eq!(region("4KiB-1MiB"), Ok(ByteRange::new(4096, 1 << 20).unwrap()));
        for text in ["", "-", "5", "5-", "5-5", "9-5", "a-b"] {
            let told = region(text).unwrap_err();
            assert!(told.starts_with(text), "{text}: {told}");
        }
        assert_eq!(region("7-").unwrap_err(), "7-: not a region like 0-64KiB");
    }

    #[test]
    fn permissions_are_octal_and_twelve_bits() {
        for (text, want) in [("644", 0o644), ("0755", 0o755), ("2775", 0o2775), ("0", 0)] {
            assert_eq!(permissions(text), Ok(want));
        }
        for text in ["", "8", "rw", "-1", "10000", "u=rw"] {
            assert!(permissions(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_with_at_most_one_decimal() {
        for (n, want) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3 GiB")] {
            assert_eq!(show_bytes(n), want);
        }
    }

    #[test]
    fn figures_are_shown_as_short_as_they_may_be() {
        assert_eq!([0, 999, 1000, 1_234_567].map(show_count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.004, 1.25, 20.0, 1500.0, 200_000.0].map(show_millis),
            ["4 µs", "1.2 ms", "20 ms", "1.5 s", "200 s"]
        );
        assert_eq!(
            [7, 320, 7300, 360_000].map(show_time),
            ["7 s", "5 min 20 s", "2 h 1 min", "4 d 4 h"]
        );
        assert_eq!([0.0123, 12.5].map(|sum| show_money(sum, "USD")), ["0.0123 USD", "12.50 USD"]);
    }
}
