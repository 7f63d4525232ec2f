//! `httpd-foreground`: Apache's server, with the files of its image.

use super::access_log;
use super::files::{self, Listing};
use crate::network::http::{Request, Response, reason};
use crate::network::serve::{Answering, Port, Site, listen, serve_site};
use crate::process::network::Connection;
use crate::process::proc::{Outcome, Proc};
use std::sync::Arc;

const ROOT: &str = "/usr/local/apache2/htdocs";
const SERVER: &str = "Apache/2.4.65 (Unix)";

pub async fn httpd(proc: &mut Proc, _: &[String]) -> Outcome {
    let ports = [Port::tcp(80)];
    if listen(proc, &ports).is_err() {
        return proc.fail("(98)Address already in use: AH00072: make_sock: could not bind to address [::]:80", 1).await;
    }
    let time = proc.now().strftime("%a %b %d %H:%M:%S.%6f %Y").to_string();
    let pid = proc.pid;
    proc.error(&format!(
        "[{time}] [mpm_event:notice] [pid {pid}:tid {pid}] AH00489: {SERVER} configured -- resuming normal operations\n"
    ))
    .await?;
    serve_site(proc, &ports, Arc::new(Httpd)).await
}

struct Httpd;

impl Site for Httpd {
    fn answer<'a>(&'a self, proc: &'a mut Proc, request: &'a Request, connection: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            let found = files::page(proc, ROOT, &request.path(), Listing::Forbidden);
            let answer = match found.status {
                200 => found,
                status => error_page(status, &found),
            };
            let line = access_log::line(proc, request, connection, &answer);
            proc.print(&format!("{line}\n")).await?;
            Ok(answer.with_header("Server", SERVER))
        })
    }
}

fn error_page(status: u16, found: &Response) -> Response {
    let title = format!("{status} {}", reason(status));
    let body = format!(
        "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>{title}</title>\n</head><body>\n\
         <h1>{}</h1>\n</body></html>\n",
        reason(status)
    );
    let page = Response::new(status, "text/html; charset=iso-8859-1", body);
    match found.headers.get("location") {
        Some(to) => page.with_header("Location", to),
        None => page,
    }
}
