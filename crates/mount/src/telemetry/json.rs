//! A log line as a JSON object: `time`, `level`, `target`, `message`, and each field under its name.

use std::io::Write as _;

use serde_json::{Map, Value as Json};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use super::record::{Record, Sink, Value};

/// Where lines go.
pub(super) struct Lines<W>(pub(super) W);

impl<W: for<'a> MakeWriter<'a> + Send + Sync + 'static> Sink for Lines<W> {
    fn write(&self, record: &Record) {
        let mut time = String::new();
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        // In one call, so that lines do not mix.
        let _ = self.0.make_writer().write_all(line(record, time).as_bytes());
    }
}

fn line(record: &Record, time: String) -> String {
    let mut object = Map::new();
    object.insert("time".into(), time.into());
    object.insert("level".into(), record.level.as_str().to_ascii_lowercase().into());
    object.insert("target".into(), record.target.as_str().into());
    object.insert("message".into(), record.message.as_str().into());
    for (name, value) in &record.fields.0 {
        object.insert((*name).to_owned(), json(value));
    }
    format!("{}\n", Json::Object(object))
}

fn json(value: &Value) -> Json {
    match value {
        Value::Text(text) => text.as_str().into(),
        Value::Number(number) => match (u64::try_from(*number), i64::try_from(*number)) {
            (Ok(number), _) => number.into(),
            (Err(_), Ok(number)) => number.into(),
            (Err(_), Err(_)) => number.to_string().into(),
        },
        Value::Fraction(number) => (*number).into(),
        Value::Bool(value) => (*value).into(),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::super::record::{Fields, Record, Value};
    use super::line;

    #[test]
    fn each_field_is_a_value_of_its_kind() {
        let record = Record {
            level: Level::WARN,
            target: "slow".into(),
            message: "a \"slow\" call\n".into(),
            fields: Fields(vec![
                ("request", Value::Number(7)),
                ("delta", Value::Number(-1)),
                ("path", Value::Text("a/b c".into())),
                ("ratio", Value::Fraction(0.5)),
                ("done", Value::Bool(true)),
            ]),
        };
        let line = line(&record, "2026-01-02T03:04:05Z".into());
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "time": "2026-01-02T03:04:05Z", "level": "warn", "target": "slow",
                "message": "a \"slow\" call\n", "request": 7, "delta": -1, "path": "a/b c",
                "ratio": 0.5, "done": true,
            })
        );
    }
}
