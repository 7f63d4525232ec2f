//! The cluster of a cell that is scheduled from outside: it runs in a thread of its own, moment by moment.

use super::pace::Moment;
use super::say;
use crate::sim::cell::{self, Options};
use crate::sim::disk::FileSystem;
use crate::sim::recorder::Recorder;
use crate::sim::study_file::StudyFile;
use experiments::record::Event;
use simulator::trial::{Audience, Progress, Steered, Told};
use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};

/// Records what happens, and stops the clock at the end of the trial.
struct Attended {
    recorder: Recorder,
    has_ended: bool,
    stop: Arc<Notify>,
}

impl Audience for Attended {
    fn happened(&mut self, at: Duration, event: Event) {
        if event == Event::Ended {
            self.has_ended = true;
            self.stop.notify_one();
        }
        self.recorder.happened(at, event);
    }

    fn decided(&mut self, told: Told) {
        self.recorder.decided(told);
    }

    fn progress(&mut self, progress: Progress) {
        self.recorder.progress(progress);
    }

    fn failure(&self) -> Result<(), String> {
        self.recorder.failure()
    }
}

/// Plays a cell and writes its files. Says `is_up` as soon as the cluster answers requests. The trial begins when somebody asks for pods.
pub fn run(
    file: &StudyFile,
    options: &Options,
    mut moments: mpsc::Receiver<Moment>,
    is_up: oneshot::Sender<()>,
) -> Result<(), Vec<String>> {
    let cell = file.cell(&options.cell).ok_or_else(|| vec![format!("the study has no cell {}", options.cell)])?;
    let (begun, recorder) = cell::begin(file, &cell, &options.out, &FileSystem)?;
    let stop = Arc::new(Notify::new());
    let attended = Rc::new(RefCell::new(Attended { recorder, has_ended: false, stop: stop.clone() }));
    let mut cluster = Steered::scheduled_from_outside(begun.setup, begun.submissions, attended.clone());
    let line = |why: String| vec![why];
    cluster.go_on(Duration::ZERO, pending()).map_err(line)?;
    let _ = is_up.send(()); // the moments end if nobody listens
    let (mut at, mut has_come) = (Duration::ZERO, false);
    while !attended.borrow().has_ended {
        let moment = cluster.stand(async |_, _| moments.recv().await).flatten();
        let Moment { passed, exchange } = moment.ok_or_else(|| line("interrupted".to_owned()))?;
        at += passed;
        cluster.go_on(at, stop.notified()).map_err(line)?;
        let Some(exchange) = exchange else { continue };
        if exchange.asks_for_pods() && !has_come {
            has_come = true;
            cluster.arrive();
            say(&format!("{cell}: the scheduler is there"));
        }
        cluster.stand(async |client, env| drop(env.spawn(exchange.perform(client))));
    }
    drop(cluster);
    let attended = Rc::into_inner(attended).ok_or_else(|| line("the cluster has not ended".to_owned()))?;
    cell::finish(file, begun.manifest, &begun.folder, attended.into_inner().recorder, &FileSystem)
}
