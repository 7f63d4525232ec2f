//! `TcpProxy`: a TCP proxy between two programs, which a test can hold or cut.

use component_base::env::Env;
use parking_lot::{Condvar, Mutex};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Bytes read at once.
const CHUNK_BYTES: usize = 16 << 10;
/// Most bytes that are held.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Passes all bytes on, unless it holds or cuts them.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    wire: Arc<Wire>,
}

#[derive(Debug)]
struct Wire {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Target of new connections.
    to: SocketAddr,
    is_held: bool,
    /// Bytes that start holding when they arrive.
    hold_at: Option<Vec<u8>>,
    /// Bytes that are held.
    held: Vec<u8>,
    is_closed: bool,
    connections: Vec<TcpStream>,
}

impl TcpProxy {
    /// Starts a proxy on its own port, to a target on loopback.
    pub fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state =
            State { to, is_held: false, hold_at: None, held: Vec::new(), is_closed: false, connections: Vec::new() };
        let wire = Arc::new(Wire { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = wire.clone();
        thread(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if accepting.state.lock().is_closed {
                    return;
                }
                // If the target cannot be reached, the connection closes at once.
                let _ = accepting.connect(connection);
            }
        });
        Self { address, wire }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds all bytes from now on.
    pub fn hold(&self) {
        self.wire.state.lock().is_held = true;
    }

    /// Holds all bytes from the first message with these bytes on.
    pub fn hold_at(&self, bytes: &[u8]) {
        self.wire.state.lock().hold_at = Some(bytes.to_vec());
    }

    /// Returns true if a message with these bytes is held.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        contains(&self.wire.state.lock().held, bytes)
    }

    /// Passes on the held bytes, and all later ones.
    pub fn release(&self) {
        let mut state = self.wire.state.lock();
        (state.is_held, state.hold_at, state.held) = (false, None, Vec::new());
        self.wire.changed.notify_all();
    }

    /// Cuts all connections, and sets the target of new ones.
    pub fn lead_to(&self, to: SocketAddr) {
        self.wire.state.lock().to = to;
        self.cut();
    }

    /// Cuts all connections; held bytes are lost.
    pub fn cut(&self) {
        for connection in self.wire.state.lock().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Wire {
    fn connect(self: &Arc<Self>, near: TcpStream) -> std::io::Result<()> {
        let mut state = self.state.lock();
        let far = TcpStream::connect(state.to)?;
        for (from, to) in [(&near, &far), (&far, &near)] {
            state.connections.push(from.try_clone()?);
            let (from, to, wire) = (from.try_clone()?, to.try_clone()?, self.clone());
            thread(move || wire.pass_on(from, to));
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
                assert!(state.held.len() < MAX_HELD_BYTES, "too much waits in the wire");
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
        self.wire.state.lock().is_closed = true;
        self.wire.changed.notify_all();
        self.cut();
        let _ = TcpStream::connect(self.address); // wakes the accepting thread
    }
}

fn contains(all: &[u8], bytes: &[u8]) -> bool {
    all.windows(bytes.len()).any(|window| window == bytes)
}

fn thread(work: impl FnOnce() + Send + 'static) {
    Env::system().thread("wire", work).expect("threads are to be had");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_arrives_late_and_what_is_cut_never() {
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
