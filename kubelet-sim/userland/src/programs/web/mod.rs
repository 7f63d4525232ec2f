//! Web servers and other servers that images have: nginx, httpd and redis.

pub mod files;
mod access_log;
pub mod nginx;
pub mod httpd;
pub mod redis;

use super::Program;

/// Returns the server, or its client, with this name. Only the images of these servers have them.
pub fn program(name: &str) -> Option<Program> {
    match name {
        "nginx" => Some(|proc, argv| Box::pin(nginx::nginx(proc, argv))),
        "httpd-foreground" => Some(|proc, argv| Box::pin(httpd::httpd(proc, argv))),
        "redis-server" => Some(|proc, argv| Box::pin(redis::redis_server(proc, argv))),
        "redis-cli" => Some(|proc, argv| Box::pin(redis::redis_cli(proc, argv))),
        _ => None,
    }
}
