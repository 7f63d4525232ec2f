//! What a server counts itself, read from its `/metrics`.

use super::Error;
use super::histogram::Buckets;
use client::Client;
use client::request::Call;
use http::Method;
use std::collections::BTreeMap;

/// Verbs of requests that write.
const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "DELETECOLLECTION"];

/// The samples of one moment, by name and labels as they are written.
pub struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    pub async fn take(client: &Client) -> Result<Self, Error> {
        let page = client.call(&Call::new(Method::GET, "/metrics")).await?;
        Ok(Self::read(&String::from_utf8_lossy(&page)))
    }

    fn read(page: &str) -> Self {
        let samples = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (sample, value) = line.rsplit_once(' ')?;
            Some((sample.to_owned(), value.parse().ok()?))
        });
        Self(samples.collect())
    }

    /// What has been added to each sample of a family since then, by one of its labels.
    fn since(&self, before: &Self, family: &str, label: &str) -> BTreeMap<String, f64> {
        let (family, label) = (format!("{family}{{"), format!("{label}=\""));
        let mut added: BTreeMap<String, f64> = BTreeMap::new();
        for (sample, value) in &self.0 {
            let Some(labels) = sample.strip_prefix(&family) else { continue };
            let Some((_, rest)) = labels.split_once(&label) else { continue };
            let name = rest.split('"').next().unwrap_or_default();
            *added.entry(name.to_owned()).or_default() += value - before.0.get(sample).copied().unwrap_or_default();
        }
        added
    }

    /// What a histogram has counted since then in the series that have all of these labels.
    pub fn buckets_since(&self, before: &Self, family: &str, labels: &[&str]) -> Buckets {
        let family = format!("{family}_bucket{{");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (sample, value) in &self.0 {
            let Some(written) = sample.strip_prefix(&family) else { continue };
            let bound =
                written.split(',').find_map(|label| label.strip_prefix("le=\"")?.split('"').next()?.parse().ok());
            let Some(bound) = bound.filter(|_| labels.iter().all(|label| written.contains(label))) else { continue };
            let added = value - before.0.get(sample).copied().unwrap_or_default();
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += added,
                None => buckets.push((bound, added)),
            }
        }
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Buckets(buckets)
    }

    pub fn store_requests_since(&self, before: &Self) -> f64 {
        self.since(before, "etcd_requests_total", "operation").values().sum()
    }

    pub fn requests_since(&self, before: &Self) -> f64 {
        self.since(before, "apiserver_request_total", "verb").values().sum()
    }

    /// Writes by verb and resource, as in `POST pods/binding`.
    pub fn writes_since(&self, before: &Self) -> BTreeMap<String, f64> {
        let mut added: BTreeMap<String, f64> = BTreeMap::new();
        for (sample, value) in &self.0 {
            let Some(labels) = sample.strip_prefix("apiserver_request_total{") else { continue };
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                rest.split('"').next()
            };
            let verb = label("verb").unwrap_or_default();
            let value = value - before.0.get(sample).copied().unwrap_or_default();
            if value > 0.0 && WRITES.contains(&verb) {
                let resource = label(",resource").unwrap_or_default();
                let subresource = label("subresource").filter(|name| !name.is_empty());
                let part = subresource.map(|name| format!("/{name}")).unwrap_or_default();
                *added.entry(format!("{verb} {resource}{part}")).or_default() += value;
            }
        }
        added
    }

    /// Seconds in each admission plugin that had anything to do.
    pub fn admission_s_since(&self, before: &Self) -> BTreeMap<String, f64> {
        let mut seconds = self.since(before, "apiserver_admission_controller_admission_duration_seconds_sum", "name");
        seconds.retain(|_, seconds| *seconds > 0.0);
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_up_by_a_label() {
        let before = Scrape::read("# HELP etcd_requests_total\netcd_requests_total{operation=\"get\",type=\"p\"} 4\n");
        let after = Scrape::read(
            "etcd_requests_total{operation=\"get\",type=\"p\"} 6\netcd_requests_total{operation=\"get\",type=\"q\"} 1\n\
             etcd_requests_total_other{operation=\"get\"} 9\netcd_requests_total{operation=\"list\",type=\"p\"} 2\n",
        );
        assert_eq!(after.store_requests_since(&before), 5.0);
        let expected = BTreeMap::from([("get".to_owned(), 3.0), ("list".to_owned(), 2.0)]);
        assert_eq!(after.since(&before, "etcd_requests_total", "operation"), expected);
    }

    #[test]
    fn buckets_are_added_up_over_series() {
        let line = |profile: &str, result: &str, le: &str, count: u32| {
            format!("s_seconds_bucket{{profile=\"{profile}\",result=\"{result}\",le=\"{le}\"}} {count}\n")
        };
        let before = Scrape::read(&line("a", "scheduled", "0.5", 1));
        let after = [
            line("a", "scheduled", "0.5", 3),
            line("b", "scheduled", "0.5", 1),
            line("a", "scheduled", "+Inf", 4),
            line("a", "error", "0.5", 9),
        ];
        let buckets = Scrape::read(&after.concat()).buckets_since(&before, "s_seconds", &["result=\"scheduled\""]);
        assert_eq!(buckets, Buckets(vec![(0.5, 3.0), (f64::INFINITY, 4.0)]));
    }

    #[test]
    fn writes_are_added_up_by_verb_and_resource() {
        let line = |code: u32, resource: &str, subresource: &str, verb: &str, count: u32| {
            format!(
                "apiserver_request_total{{code=\"{code}\",group=\"\",resource=\"{resource}\",subresource=\"{subresource}\",\
                 verb=\"{verb}\"}} {count}\n"
            )
        };
        let before = Scrape::read(&line(201, "pods", "", "POST", 3));
        let after = [
            line(201, "pods", "", "POST", 5),
            line(409, "pods", "", "POST", 1),
            line(201, "pods", "binding", "POST", 2),
            line(200, "pods", "", "LIST", 7),
        ];
        let expected = BTreeMap::from([("POST pods".to_owned(), 3.0), ("POST pods/binding".to_owned(), 2.0)]);
        assert_eq!(Scrape::read(&after.concat()).writes_since(&before), expected);
    }
}
