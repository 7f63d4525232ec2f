//! A server that says the same on all its pages: it stands for a program that is not simulated.

use super::http::{Request, Response};
use super::serve::{Answering, Port, Site, listen, serve_site};
use crate::process::network::Connection;
use crate::process::proc::Proc;
use crate::process::signal::ExitStatus;
use std::future::pending;
use std::sync::Arc;

/// What the server says.
#[derive(Clone, Debug, PartialEq)]
pub enum Pages {
    /// A line that names the server, the port, and the first line of the request.
    Greeting(String),
    Answer {
        status: u16,
        text: String,
    },
}

impl Pages {
    /// Reads an answer: a text, behind its status if that is not 200.
    pub fn answer(text: &str) -> Self {
        let status = text.split_once(' ').and_then(|(status, rest)| Some((status.parse().ok()?, rest)));
        match status.filter(|(status, _)| (200..600).contains(status)) {
            Some((status, text)) => Self::Answer { status, text: text.to_owned() },
            None => Self::Answer { status: 200, text: text.to_owned() },
        }
    }

    /// Returns the status and the text for a request.
    pub fn page(&self, port: u16, request_line: &str) -> (u16, String) {
        match self {
            Self::Greeting(greeting) => (200, format!("{greeting}, port {port}.\n{request_line}\n")),
            Self::Answer { status, text } => (*status, text.clone()),
        }
    }
}

impl Site for Pages {
    fn answer<'a>(&'a self, _: &'a mut Proc, request: &'a Request, connection: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            let line = format!("{} {}", request.method, request.target);
            let (status, text) = self.page(connection.local.port(), &line);
            Ok(Response::text(status, text))
        })
    }
}

/// Serves the pages until the process is stopped.
pub async fn serve_pages(mut proc: Proc, ports: Vec<u16>, pages: Pages) -> ExitStatus {
    let ports: Vec<Port> = ports.into_iter().map(Port::tcp).collect();
    if listen(&proc, &ports).is_err() {
        return pending().await;
    }
    match serve_site(&mut proc, &ports, Arc::new(pages)).await {
        Ok(code) => ExitStatus::Code(code),
        Err(stop) => ExitStatus::Code(stop.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_begin_with_its_status() {
        for (text, status, shown) in
            [("hello", 200, "hello"), ("503 try later", 503, "try later"), ("7 dwarfs", 200, "7 dwarfs")]
        {
            assert_eq!(Pages::answer(text).page(80, "GET /"), (status, shown.to_owned()), "{text}");
        }
        let greeting = Pages::Greeting("Hello from me".to_owned());
        assert_eq!(greeting.page(80, "GET /a?b"), (200, "Hello from me, port 80.\nGET /a?b\n".to_owned()));
    }
}
