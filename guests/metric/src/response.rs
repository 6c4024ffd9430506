//! Response times: how long after a tick was due its handler begins (`interrupt-latency`), how long from there until the thread
//! runs that has waited for the tick (`task-release`), and both (`response`). A less urgent thread computes meanwhile, so each
//! tick preempts it; or nothing does (`idle=1`), and the processor waits. The clock's resolution limits all of them.

use crate::{Counter, Past, Rtos, Test, Threads, services};

/// Smallest, largest, sum and number of values, in counts of the clock.
struct Measure {
    min: Counter,
    max: Counter,
    sum: Counter,
    samples: Counter,
}

impl Measure {
    const fn new() -> Self {
        Self { min: Counter::new(), max: Counter::new(), sum: Counter::new(), samples: Counter::new() }
    }

    fn add(&self, value: u64) {
        if self.samples.get() == 0 || value < self.min.get() {
            self.min.set(value);
        }
        self.max.set(value.max(self.max.get()));
        self.sum.set(self.sum.get() + value);
        self.samples.count();
    }

    fn print<R: Rtos>(&self, name: &str) {
        let samples = self.samples.get();
        let ns = |counts: u64| u128::from(counts) * 1_000_000_000 / u128::from(R::frequency());
        let [min, mean, max] = [self.min.get(), self.sum.get() / samples.max(1), self.max.get()].map(ns);
        R::print(format_args!("{name} {min} {mean} {max} {samples}"));
    }
}

static INTERRUPT: Measure = Measure::new();
static RELEASE: Measure = Measure::new();
static RESPONSE: Measure = Measure::new();

pub fn test<R: Rtos>() -> Test {
    Test { name: "response", start: start::<R>, report: report::<R> }
}

fn start<R: Rtos>() -> Threads {
    let [responding, computing] = [(1, respond::<R> as fn(usize)), (20, services::compute)];
    let begin = |(priority, main)| services::begin::<R>(priority, main, 0);
    let computes = !crate::options::<R>().idle;
    [begin(responding), computes.then(|| begin(computing)).flatten(), None, None, None]
}

fn respond<R: Rtos>(_: usize) {
    let mut tick = R::ticks();
    loop {
        // Ticks that have been while this thread had not run are missed; the response to the first of them was counted, as late as it was.
        tick = (tick + 1).max(R::ticks() + 1);
        R::sleep_until(tick);
        let [now, handled, due] = [R::now(), R::tick_handled_at(), R::time_of(tick)];
        if now < due {
            R::fail(format_args!("response: the thread runs before its tick is due"));
        }
        RESPONSE.add(now - due);
        // What has been read is this tick's, if no further one has passed.
        if due <= handled && handled <= now && R::ticks() == tick {
            INTERRUPT.add(handled - due);
            RELEASE.add(now - handled);
        }
    }
}

fn report<R: Rtos>(past: Past) -> Result<Option<u64>, &'static str> {
    let samples = RESPONSE.samples.get();
    // On a loaded host, each tick of an interval may be over before the thread has read when it was handled.
    if samples == past.count || INTERRUPT.samples.get() == 0 {
        return Ok(None);
    }
    INTERRUPT.print::<R>("interrupt-latency");
    RELEASE.print::<R>("task-release");
    RESPONSE.print::<R>("response");
    Ok(Some(samples))
}
