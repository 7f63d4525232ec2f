//! Pages that are files of a folder.

use crate::network::http::Response;
use crate::process::proc::Proc;
use file_tree::actor::Actor;
use file_tree::error::FileError;
use file_tree::place::join;

/// What a server shows of a folder without an index page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The names in the folder, as Go's file server lists them.
    Go,
    Forbidden,
}

/// Returns the file that a path of an address names.
pub fn page(proc: &Proc, root: &str, path: &str, listing: Listing) -> Response {
    let actor = proc.actor();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Response::text(400, "invalid URL path\n");
    }
    let file = join(root, &parts.join("/"));
    match proc.tree().metadata(&actor, &file, true) {
        Ok(found) if found.file_type.letter() == 'd' => {
            if !path.ends_with('/') {
                let name = parts.last().copied().unwrap_or_default();
                let to = if listing == Listing::Go { format!("{name}/") } else { format!("{path}/") };
                return Response::text(301, "").with_header("Location", to);
            }
            match read(proc, &actor, &join(&file, "index.html")) {
                Ok(page) => page,
                Err(_) => folder(proc, &actor, &file, listing),
            }
        }
        Ok(_) => read(proc, &actor, &file).unwrap_or_else(refusal),
        Err(error) => refusal(error),
    }
}

fn refusal(error: FileError) -> Response {
    match error {
        FileError::PermissionDenied => Response::text(403, "403 Forbidden\n"),
        _ => Response::text(404, "404 page not found\n"),
    }
}

fn read(proc: &Proc, actor: &Actor, file: &str) -> Result<Response, FileError> {
    let content = proc.tree().read(actor, file)?;
    Ok(Response::new(200, content_type(file, &content), content))
}

fn content_type(file: &str, content: &[u8]) -> &'static str {
    let name = file.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.').map_or("", |(_, suffix)| suffix) {
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" => "application/javascript",
        "json" => "application/json",
        "txt" => "text/plain",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        _ if std::str::from_utf8(content).is_ok() => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn folder(proc: &Proc, actor: &Actor, path: &str, listing: Listing) -> Response {
    let names = match (listing, proc.tree().read_folder(actor, path)) {
        (Listing::Go, Ok(names)) => names,
        _ => return Response::text(403, "403 Forbidden\n"),
    };
    let link = |name: String| {
        let shown = if proc.tree().is_folder(actor, &join(path, &name)) { format!("{name}/") } else { name };
        format!("<a href=\"{shown}\">{shown}</a>\n")
    };
    let links: String = names.into_iter().map(link).collect();
    Response::new(200, "text/html; charset=utf-8", format!("<!doctype html>\n<pre>\n{links}</pre>\n"))
}
