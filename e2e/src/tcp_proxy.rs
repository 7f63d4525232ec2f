//! `TcpProxy`: a TCP proxy between two programs. A test can hold back its bytes or cut its connections.

use component_base::env::Env;
use parking_lot::{Condvar, Mutex};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Most bytes of one read.
const CHUNK_BYTES: usize = 16 << 10;
/// Most bytes that are held back.
const MAX_HELD_BYTES: usize = 1 << 20;

/// A proxy that passes all bytes on, except while it holds them or after it cut their connection.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    connections: Arc<Connections>,
}

/// The connections of a proxy, and their common state.
#[derive(Debug)]
struct Connections {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Target of new connections.
    to: SocketAddr,
    is_held: bool,
    /// Bytes that make the proxy hold when they arrive.
    hold_at: Option<Vec<u8>>,
    /// Bytes that are held.
    held: Vec<u8>,
    is_closed: bool,
    open: Vec<TcpStream>,
}

impl TcpProxy {
    /// Starts a proxy on its own port, to a target on loopback.
    pub fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = State { to, is_held: false, hold_at: None, held: Vec::new(), is_closed: false, open: Vec::new() };
        let connections = Arc::new(Connections { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = connections.clone();
        thread(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if accepting.state.lock().is_closed {
                    return;
                }
                // If the target cannot be reached, the connection closes at once.
                let _ = accepting.connect(connection);
            }
        });
        Self { address, connections }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds back all bytes from now on.
    pub fn hold(&self) {
        self.connections.state.lock().is_held = true;
    }

    /// Holds back all bytes from the first read that contains these bytes on.
    pub fn hold_at(&self, bytes: &[u8]) {
        self.connections.state.lock().hold_at = Some(bytes.to_vec());
    }

    /// Returns true if the held bytes contain these.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        contains(&self.connections.state.lock().held, bytes)
    }

    /// Passes on the held bytes, and all later ones.
    pub fn release(&self) {
        let mut state = self.connections.state.lock();
        (state.is_held, state.hold_at, state.held) = (false, None, Vec::new());
        self.connections.changed.notify_all();
    }

    /// Cuts all connections, and sets the target of new ones.
    pub fn redirect_to(&self, to: SocketAddr) {
        self.connections.state.lock().to = to;
        self.cut();
    }

    /// Cuts all connections; held bytes are lost.
    pub fn cut(&self) {
        for connection in self.connections.state.lock().open.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Connections {
    fn connect(self: &Arc<Self>, near: TcpStream) -> std::io::Result<()> {
        let mut state = self.state.lock();
        let far = TcpStream::connect(state.to)?;
        for (from, to) in [(&near, &far), (&far, &near)] {
            state.open.push(from.try_clone()?);
            let (from, to, connections) = (from.try_clone()?, to.try_clone()?, self.clone());
            thread(move || connections.pass_on(from, to));
        }
        Ok(())
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(count) = from.read(&mut chunk) {
            if count == 0 {
                break;
            }
            let mut state = self.state.lock();
            state.is_held |= state.hold_at.as_ref().is_some_and(|bytes| contains(&chunk[..count], bytes));
            if state.is_held {
                assert!(state.held.len() < MAX_HELD_BYTES, "too many bytes are held");
                state.held.extend_from_slice(&chunk[..count]);
                self.changed.wait_while(&mut state, |state| state.is_held && !state.is_closed);
            }
            drop(state);
            if to.write_all(&chunk[..count]).is_err() {
                break;
            }
        }
        // Ends the other direction too.
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.connections.state.lock().is_closed = true;
        self.connections.changed.notify_all();
        self.cut();
        let _ = TcpStream::connect(self.address); // wakes the accepting thread
    }
}

fn contains(all: &[u8], bytes: &[u8]) -> bool {
    all.windows(bytes.len()).any(|window| window == bytes)
}

fn thread(work: impl FnOnce() + Send + 'static) {
    Env::system().thread("tcp-proxy", work).expect("the system has room for a thread");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bytes_arrive_late_and_cut_bytes_never() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = TcpProxy::start(listener.local_addr().unwrap());
        let mut near = TcpStream::connect(proxy.address()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut two = [0; 2];
        proxy.hold_at(b"d");
        for (word, is_held) in [(b"ab", false), (b"cd", true)] {
            near.write_all(word).unwrap();
            if is_held {
                crate::wait::until("the word waits", || proxy.holds(word));
                proxy.release();
            }
            far.read_exact(&mut two).unwrap();
            assert_eq!((&two, proxy.holds(word)), (word, false));
        }
        proxy.cut();
        assert_eq!((near.read(&mut two).unwrap_or(0), far.read(&mut two).unwrap_or(0)), (0, 0));
    }
}
