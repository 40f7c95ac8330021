//! One end of link `ofi` for its figures (`tieline bench acceptance --only ofi`): put, barrier and doorbells, timed.
//!
//! `tieline-ofi-measure PROVIDER ADDRESS[,ADDRESS] BYTES` opens an end point at each of these addresses, exports BYTES of memory, and
//! prints its card. With several addresses the link has as many rails. The
//! first line of its input is the card of the peer; then each line is an order, answered by one line. It ends with its input. The
//! orders: see [`End::obey`].
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::RemoteMemory;
use ofi::{Bell, Endpoint, EndpointCard, Exported, MemoryCard, OfiMemory, Rails, Settings, Wanted};
use proto::ids::NodeId;
use shm::region::{Region, RegionOptions};
use shm::sync::Ordering;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Both ends of a measurement have the same.
const SESSION: u64 = 0x6d65_6173_7572_6500;
/// Nothing takes this long: the peer is gone.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut input = std::io::stdin().lock().lines().map_while(Result::ok);
    let mut end = match End::open(&words, &mut input) {
        Ok(end) => end,
        Err(error) => return say(&format!("error {error}")),
    };
    say("ready");
    for line in input {
        let words: Vec<&str> = line.split_whitespace().collect();
        match end.obey(&words) {
            Ok(said) => say(&said),
            Err(error) => say(&format!("error {error}")),
        }
    }
}

fn say(line: &str) {
    println!("{line}");
    // Whoever reads it has ended: there is nothing to do for anyone.
    let _ = std::io::stdout().flush();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Fallible<Vec<u8>> {
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// The same bytes at both ends.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 29) as u8;
    (0..len as u64).map(byte).collect()
}

struct End {
    memory: OfiMemory,
    rails: Arc<Rails>,
    its_bell: u64,
    bell: Bell,
    /// How often the own doorbell was rung.
    rung: u32,
    /// Numbers that the peer has put.
    polled: u64,
    source: Vec<u8>,
    region: Arc<Region>,
    _exported: Vec<Exported>,
    _endpoints: Vec<Endpoint>,
}

impl End {
    fn open(words: &[String], input: &mut impl Iterator<Item = String>) -> Fallible<Self> {
        let [provider, address, bytes] = words else {
            return Err("usage: tieline-ofi-measure PROVIDER ADDRESS BYTES".into());
        };
        let settings = Settings { give_up_after: GIVE_UP_AFTER, ..Settings::default() };
        let open = |address: &str| -> Fallible<Endpoint> {
            let wanted = Wanted { provider: Some(provider.clone()), source: Some(address.parse()?) };
            Ok(Endpoint::open(&wanted, settings)?)
        };
        let endpoints = address.split(',').map(open).collect::<Fallible<Vec<_>>>()?;
        let region = Arc::new(Region::create(&RegionOptions::new("measure", bytes.parse()?))?);
        let exported: Vec<_> =
            endpoints.iter().map(|endpoint| endpoint.export(&region)).collect::<Result<_, _>>()?;
        let bell = endpoints.first().ok_or("no address")?.bell()?;
        let cards = endpoints.iter().map(|endpoint| Ok(hex(&endpoint.card()?.to_bytes())));
        let cards = cards.collect::<Fallible<Vec<_>>>()?;
        let memory: Vec<_> = exported.iter().map(|exported| hex(&exported.card().to_bytes())).collect();
        say(&[cards.join(","), memory.join(","), bell.id().to_string()].join(" "));
        let card = input.next().ok_or("the peer's card is missing")?;
        let its: Vec<&str> = card.split(' ').collect();
        let [end_points, memory, its_bell] = its.as_slice() else {
            return Err("the peer's card is cut off".into());
        };
        let peers = endpoints.iter().zip(end_points.split(',')).map(|(endpoint, card)| {
            let card = EndpointCard::from_bytes(&unhex(card)?)?;
            Ok(Arc::new(endpoint.connect("the other end", &card, SESSION)?))
        });
        let rails = Rails::new(peers.collect::<Fallible<_>>()?).map(Arc::new).ok_or("no rail")?;
        let memory = memory.split(',').map(|card| Ok(MemoryCard::from_bytes(&unhex(card)?)?));
        let memory = OfiMemory::over(Arc::clone(&rails), NodeId::new(8)?, memory.collect::<Fallible<_>>()?);
        let memory = memory.ok_or("there is not a card of memory for each rail")?;
        Ok(Self {
            memory,
            rails,
            its_bell: its_bell.parse()?,
            bell,
            rung: 0,
            polled: 0,
            source: vec![0; bytes.parse()?],
            region,
            _exported: exported,
            _endpoints: endpoints,
        })
    }

    /// The orders. Times are in nanoseconds.
    ///
    /// - `echo N`, while the peer does `answer N`: N doorbells and their answers; half the time of one of them
    /// - `poll-echo N`, while the peer does `poll-answer N`: the same by puts of 8 bytes, and looks at the word that the peer puts
    /// - `put BYTES N`: N puts, each followed by a barrier; the time of one
    /// - `stream BYTES N`: N puts and a barrier; the time of one
    /// - `fill BYTES SEED`: what the next puts write
    /// - `check BYTES SEED`: whether the peer has written that
    /// - `version`: libfabric's
    fn obey(&mut self, words: &[&str]) -> Fallible<String> {
        let number =
            |nth: usize| -> Fallible<u64> { Ok(words.get(nth).ok_or("a number is missing")?.parse()?) };
        let ns = |time: f64| Ok(format!("{time:.1}"));
        match words.first().copied().unwrap_or("") {
            "echo" => ns(self.echo(number(1)?)?),
            "answer" => self.answer(number(1)?).map(|()| "done".to_owned()),
            "poll-echo" => ns(self.poll_echo(number(1)?)?),
            "poll-answer" => self.poll_answer(number(1)?).map(|()| "done".to_owned()),
            "put" => ns(self.puts(number(1)? as usize, number(2)?, true)?),
            "stream" => ns(self.puts(number(1)? as usize, number(2)?, false)?),
            "fill" => {
                let bytes = pattern(number(1)? as usize, number(2)?);
                self.source
                    .get_mut(..bytes.len())
                    .ok_or("that is longer than the memory")?
                    .copy_from_slice(&bytes);
                Ok("done".to_owned())
            }
            "version" => Ok(fabric_sys::Library::load()?.version()),
            "check" => self.check(number(1)? as usize, number(2)?),
            other => Err(format!("`{other}` is no order").into()),
        }
    }

    fn await_bell(&mut self) -> Fallible<()> {
        // Each rings once at a time.
        let rung = self.bell.wait(self.rung).ok_or("the peer has not responded")?;
        if rung != self.rung.wrapping_add(1) {
            return Err("a doorbell has rung that nobody has rung".into());
        }
        self.rung = rung;
        Ok(())
    }

    fn echo(&mut self, rounds: u64) -> Fallible<f64> {
        let started = Instant::now();
        for _ in 0..rounds {
            self.rails.ring(self.its_bell)?;
            self.await_bell()?;
        }
        Ok(started.elapsed().as_nanos() as f64 / (2 * rounds.max(1)) as f64)
    }

    fn answer(&mut self, rounds: u64) -> Fallible<()> {
        for _ in 0..rounds {
            self.await_bell()?;
            self.rails.ring(self.its_bell)?;
        }
        Ok(())
    }

    /// Waits until the peer has put the next number.
    fn await_word(&mut self) -> Fallible<()> {
        self.polled += 1;
        let window = self.region.window();
        let word = window.atomic_u64(0)?;
        let started = Instant::now();
        // Acquire: what the peer has put before it is there.
        while word.load(Ordering::Acquire) != self.polled {
            if started.elapsed() > GIVE_UP_AFTER {
                return Err("the peer has not responded".into());
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn put_word(&self, number: u64) -> Fallible<()> {
        Ok(self.memory.put(0, &number.to_ne_bytes())?)
    }

    fn poll_echo(&mut self, rounds: u64) -> Fallible<f64> {
        let started = Instant::now();
        for _ in 0..rounds {
            self.put_word(self.polled + 1)?;
            self.await_word()?;
        }
        Ok(started.elapsed().as_nanos() as f64 / (2 * rounds.max(1)) as f64)
    }

    fn poll_answer(&mut self, rounds: u64) -> Fallible<()> {
        for _ in 0..rounds {
            self.await_word()?;
            self.put_word(self.polled)?;
        }
        Ok(())
    }

    fn puts(&mut self, len: usize, count: u64, one_at_a_time: bool) -> Fallible<f64> {
        let source = self.source.get(..len).ok_or("that is longer than the memory")?;
        let started = Instant::now();
        for _ in 0..count {
            self.memory.put(0, source)?;
            if one_at_a_time {
                self.memory.barrier()?;
            }
        }
        self.memory.barrier()?;
        Ok(started.elapsed().as_nanos() as f64 / count.max(1) as f64)
    }

    fn check(&self, len: usize, seed: u64) -> Fallible<String> {
        let mut found = vec![0; len];
        self.region.window().get(0, &mut found)?;
        match found.iter().zip(pattern(len, seed)).position(|(found, wanted)| *found != wanted) {
            None => Ok("same".to_owned()),
            Some(at) => Err(format!("byte {at} is not what was put").into()),
        }
    }
}
