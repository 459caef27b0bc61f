//! An event with the spans around it as plain values, for formats of our own.

use std::borrow::Cow;
use std::fmt::{self, Debug, Display};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::cut::{chars_max, cut};

/// A value as it was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i128),
    Fraction(f64),
    Bool(bool),
}

/// Names and values, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields(pub(super) Vec<(&'static str, Value)>);

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) level: Level,
    pub(super) target: String,
    pub(super) message: String,
    /// Those of the spans around it, outermost first, then its own.
    pub(super) fields: Fields,
}

/// Whoever writes records down.
pub(super) trait Sink: Send + Sync + 'static {
    /// Writes one. What cannot be written is lost: a log has nowhere to complain.
    fn write(&self, record: &Record);
}

/// Makes records of what happens.
pub(super) struct Recorder<S> {
    sink: S,
    mount: String,
}

impl<S> Recorder<S> {
    /// For `sink`, each with the place of its mount.
    pub(super) fn new(sink: S, mount: String) -> Recorder<S> {
        Recorder { sink, mount }
    }
}

impl<S: Sink, T: Subscriber + for<'a> LookupSpan<'a>> Layer<T> for Recorder<S> {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, T>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, T>) {
        let mut fields = Fields(vec![("mount", Value::Text(self.mount.clone()))]);
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(Fields(of_span)) = span.extensions().get() {
                fields.0.extend(of_span.iter().cloned());
            }
        }
        event.record(&mut fields);
        let (level, target) = (*event.metadata().level(), event.metadata().target().to_owned());
        let chars_max = chars_max(&target);
        let message = cut(&fields.take("message"), chars_max).into_owned();
        fields.cut(chars_max);
        self.sink.write(&Record { level, target, message, fields });
    }
}

impl Fields {
    /// Cuts each text.
    fn cut(&mut self, chars_max: usize) {
        for (_, value) in &mut self.0 {
            if let Value::Text(text) = value
                && let Cow::Owned(short) = cut(text, chars_max)
            {
                *text = short;
            }
        }
    }

    fn add(&mut self, field: &Field, value: Value) {
        self.0.push((field.name(), value));
    }

    /// Takes a text out.
    fn take(&mut self, name: &str) -> String {
        let Some(at) = self.0.iter().rposition(|(found, _)| *found == name) else {
            return String::new();
        };
        self.0.remove(at).1.to_string()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Number(value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Number(value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::Fraction(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Bool(value));
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Number(number) => Display::fmt(number, f),
            Value::Fraction(number) => Display::fmt(number, f),
            Value::Bool(value) => Display::fmt(value, f),
        }
    }
}
