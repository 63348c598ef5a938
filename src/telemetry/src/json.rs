//! A line of the log as a JSON object: time, level, target, message and fields of the event, and those of the spans it is in.

use std::fmt::{Debug, Error};
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Fields as JSON.
#[derive(Default)]
struct Fields(Map<String, Value>);

// === impl Fields ===

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

/// Fields of a span, as its first line of JSON would be: what [`JsonFields`] keeps of it.
#[derive(Debug)]
pub(crate) struct JsonFields;

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: tracing_subscriber::field::RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> Result<(), Error> {
        let mut own = Fields::default();
        fields.record(&mut own);
        writer.write_str(&Value::Object(own.0).to_string())
    }
}

/// Writes events as lines of JSON.
#[derive(Debug)]
pub(crate) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> Result<(), Error> {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = fields.0;
        let metadata = event.metadata();
        let time = Timestamp::try_from(SystemTime::now()).map(|time| time.to_string());
        line.insert("timestamp".to_owned(), time.unwrap_or_default().into());
        line.insert("level".to_owned(), metadata.level().as_str().into());
        line.insert("target".to_owned(), metadata.target().into());
        let mut spans = Vec::new();
        for span in context.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            let extensions = span.extensions();
            let kept = extensions.get::<tracing_subscriber::fmt::FormattedFields<N>>();
            let mut own: Map<String, Value> =
                kept.and_then(|kept| serde_json::from_str(&kept.fields).ok()).unwrap_or_default();
            own.insert("name".to_owned(), span.name().into());
            spans.push(Value::Object(own));
        }
        if !spans.is_empty() {
            line.insert("spans".to_owned(), spans.into());
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_object_with_the_spans_it_is_in() {
        let kept = Kept::default();
        let to = kept.clone();
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields)
            .event_format(JsonLines)
            .with_writer(move || to.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let span = tracing::info_span!("decision", launches = true, cause = "Pod a/b \"c\"");
            span.in_scope(|| tracing::info!(n_launched = 3, claim = %"x\ny", "planned"));
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["message"], &line["level"]), (&"planned".into(), &"INFO".into()));
        assert_eq!((&line["n_launched"], &line["claim"]), (&3.into(), &"x\ny".into()));
        let span = serde_json::json!({"name": "decision", "launches": true, "cause": "Pod a/b \"c\""});
        assert_eq!(line["spans"], serde_json::json!([span]));
    }
}
