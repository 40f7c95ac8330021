//! One end of link `ofi` for its figures (`tieline bench acceptance --only ofi`): put, barrier and doorbells,
//! timed.
//!
//! `tieline-ofi-measure PROVIDER ADDRESS[,ADDRESS] BYTES` opens an end point at each of these addresses,
//! exports BYTES of memory, and prints its card. With several addresses the link has as many rails; with the
//! word `owner` at one end and `importer` at the other it goes on without one that is cut, in the direction
//! from the importer to the owner. The first line of its input is the card of the peer; then each line is an
//! order, answered by one line. It ends with its input. The orders: see [`End::obey`].
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod owner;

use std::io::{BufRead, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::RemoteMemory;
use ofi::{
    Bell, CHUNK_BYTES, Endpoint, EndpointCard, Exported, MemoryCard, OfiError, OfiMemory, Rails, Recover,
    Settings, Wanted,
};
use owner::Owner;
use proto::ids::NodeId;
use shm::clock::monotonic_ns;
use shm::region::{Region, RegionOptions};
use shm::sync::{AtomicBool, Ordering};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Both ends of a measurement have the same.
const SESSION: u64 = 0x6d65_6173_7572_6500;
/// Nothing takes this long: the peer is gone.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Bytes of an urgent put, the first so many of which are not measured, and the pause between two looks for
/// its answer: a thread that looks all the time keeps those that move the blocks from the processor.
const URGENT_BYTES: usize = 64;
const URGENT_WARM_UP: usize = 20;
const LOOK: Duration = Duration::from_micros(20);
/// Bytes that are compared at once.
const CHECKED_AT_ONCE: usize = 1 << 20;

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

/// The same bytes at both ends, from a place on that is a multiple of 8. By words, as long blocks are made
/// and compared.
fn pattern(into: &mut [u8], from: usize, seed: u64) {
    for (nth, bytes) in into.chunks_mut(8).enumerate() {
        let word = ((from / 8 + nth) as u64 ^ seed.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.copy_from_slice(&(word ^ word >> 29).to_ne_bytes()[..bytes.len()]);
    }
}

/// The rails as they are opened here.
struct RailsHere {
    provider: String,
    addresses: Vec<IpAddr>,
}

impl RailsHere {
    fn open(&self, rail: usize) -> Result<Endpoint, OfiError> {
        let settings = Settings { give_up_after: GIVE_UP_AFTER, ..Settings::default() };
        let source = self.addresses.get(rail).copied();
        Endpoint::open(&Wanted { provider: Some(self.provider.clone()), source, is_exact: false }, settings)
    }
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
    _owner: Owner,
    _exported: Vec<Exported>,
    _endpoints: Vec<Endpoint>,
}

impl End {
    fn open(words: &[String], input: &mut impl Iterator<Item = String>) -> Fallible<Self> {
        let [provider, addresses, bytes, role @ ..] = words else {
            return Err("usage: tieline-ofi-measure PROVIDER ADDRESS BYTES [owner|importer]".into());
        };
        let role = role.first().map(String::as_str);
        let addresses: Vec<IpAddr> =
            addresses.split(',').map(|address| Ok(address.parse()?)).collect::<Fallible<_>>()?;
        let rails = RailsHere { provider: provider.clone(), addresses };
        let endpoints =
            (0..rails.addresses.len()).map(|rail| rails.open(rail)).collect::<Result<Vec<_>, _>>()?;
        let region = Arc::new(Region::create(&RegionOptions::new("measure", bytes.parse()?))?);
        let exported: Vec<_> =
            endpoints.iter().map(|endpoint| endpoint.export(&region)).collect::<Result<_, _>>()?;
        let first = endpoints.first().ok_or("no address")?;
        let bell = first.bell()?;
        let mut owner = Owner::new(&endpoints)?;
        let cards = endpoints.iter().map(|endpoint| Ok(hex(&endpoint.card()?.to_bytes())));
        let cards = cards.collect::<Fallible<Vec<_>>>()?;
        let memory: Vec<_> = exported.iter().map(|exported| hex(&exported.card().to_bytes())).collect();
        let bells: Vec<_> = owner.bells.iter().map(|bell| bell.id().to_string()).collect();
        say(&[cards.join(","), memory.join(","), bell.id().to_string(), bells.join(",")].join(" "));
        let card = input.next().ok_or("the peer's card is missing")?;
        let its: Vec<&str> = card.split(' ').collect();
        let [end_points, memory, its_bell, its_owner] = its.as_slice() else {
            return Err("the peer's card is cut off".into());
        };
        let peers = endpoints.iter().zip(end_points.split(',')).map(|(endpoint, card)| {
            let card = EndpointCard::from_bytes(&unhex(card)?)?;
            Ok(endpoint.connect("the other end", &card, SESSION)?)
        });
        let mut peers = peers.collect::<Fallible<Vec<_>>>()?;
        let mut memory: Vec<_> = memory
            .split(',')
            .map(|card| Ok(MemoryCard::from_bytes(&unhex(card)?)?))
            .collect::<Fallible<_>>()?;
        let (mut kept, mut open) = (exported, endpoints);
        let rails = match role {
            Some("owner") => {
                // Its own puts are words, which go over the first rail.
                memory.truncate(1);
                let others = peers.split_off(1);
                let own = open.split_off(1).into_iter().zip(others).zip(kept.split_off(1));
                let own = own.map(|((end_point, peer), exported)| (end_point, peer, exported));
                let first = peers.first().ok_or("no rail")?.fence();
                owner.serve(first, own.collect(), &region, move |rail| Ok(rails.open(rail)?));
                Rails::new(peers.into_iter().map(Arc::new).collect())
            }
            Some("importer") => {
                let numbers = (0..peers.len()).map(|rail| rail as u8).collect();
                let again = move |rail: usize, _: &Endpoint| rails.open(rail);
                let bells = its_owner.split(',').map(|bell| Ok(bell.parse()?)).collect::<Fallible<_>>()?;
                let (open, tell) = (Box::new(again), Box::new(|_: &_| true));
                let ask = Box::new(|_: &[u8], _| None);
                let recover = Recover { bells, numbers, open, outbox: None, tell, ask };
                Rails::recovering(peers.into_iter().map(Arc::new).collect(), recover)
            }
            _ => Rails::new(peers.into_iter().map(Arc::new).collect()),
        };
        let rails = rails.map(Arc::new).ok_or("no rail")?;
        let memory = OfiMemory::over(Arc::clone(&rails), NodeId::new(8)?, memory);
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
            _owner: owner,
            _exported: kept,
            _endpoints: open,
        })
    }

    /// The orders. Times are in nanoseconds.
    ///
    /// - `echo N`, while the peer does `answer N`: N doorbells and their answers; half the time of one of
    ///   them
    /// - `poll-echo N`, while the peer does `poll-answer N`: the same by puts of 8 bytes, and looks at the
    ///   word that the peer puts
    /// - `put BYTES N`: N puts, each followed by a barrier; the time of one
    /// - `stream BYTES N`: N puts and a barrier; the time of one
    /// - `chunk`: the bytes of a chunk of a long block over rails
    /// - `urgent BYTES N`, while the peer does `urgent-answer N`: N puts of 64 bytes and their answers, while
    ///   another thread puts blocks of BYTES one after the other; the time that 99 % of them do not exceed
    /// - `long BYTES N`: N puts to N places; the moments (CLOCK_MONOTONIC) of the begin, of the return of
    ///   each, and of the end of a barrier
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
            "chunk" => Ok(CHUNK_BYTES.to_string()),
            "urgent" => ns(self.urgent(number(1)? as usize, number(2)? as usize)?),
            "urgent-answer" => self.urgent_answer(number(1)?).map(|()| "done".to_owned()),
            "long" => {
                let moments = self.long(number(1)? as usize, number(2)? as usize)?;
                Ok(moments.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
            }
            "fill" => {
                let (len, seed) = (number(1)? as usize, number(2)?);
                let source = self.source.get_mut(..len).ok_or("that is longer than the memory")?;
                pattern(source, 0, seed);
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
        await_word(&self.region, self.polled, std::hint::spin_loop)
    }

    /// Behind as many blocks as the link takes, and beside them: with a thread that puts them.
    fn urgent(&mut self, block_bytes: usize, rounds: usize) -> Fallible<f64> {
        let Self { memory, source, region, polled, .. } = self;
        let (memory, is_over) = (&*memory, AtomicBool::new(false));
        let block = source.get(..block_bytes).ok_or("that is longer than the memory")?;
        let mut took_ns = Vec::with_capacity(rounds);
        std::thread::scope(|scope| -> Fallible<()> {
            let bulk = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    memory.put(URGENT_BYTES, block)?;
                }
                memory.barrier()
            });
            let mut urgent = || -> Fallible<()> {
                for round in 0..rounds + URGENT_WARM_UP {
                    *polled += 1;
                    let mut bytes = [0; URGENT_BYTES];
                    bytes[..8].copy_from_slice(&polled.to_ne_bytes());
                    let started = Instant::now();
                    memory.put(0, &bytes)?;
                    await_word(region, *polled, || std::thread::sleep(LOOK))?;
                    if round >= URGENT_WARM_UP {
                        took_ns.push(started.elapsed().as_nanos() as f64);
                    }
                }
                Ok(())
            };
            let outcome = urgent();
            is_over.store(true, Ordering::Relaxed);
            bulk.join().map_err(|_| "the thread that puts blocks has panicked")??;
            outcome
        })?;
        took_ns.sort_by(f64::total_cmp);
        let at = (took_ns.len() * 99).div_ceil(100).saturating_sub(1);
        Ok(*took_ns.get(at).ok_or("nothing was put")?)
    }

    fn urgent_answer(&mut self, rounds: u64) -> Fallible<()> {
        for _ in 0..rounds + URGENT_WARM_UP as u64 {
            self.polled += 1;
            await_word(&self.region, self.polled, || std::thread::sleep(LOOK))?;
            self.put_word(self.polled)?;
        }
        Ok(())
    }

    fn long(&self, len: usize, count: usize) -> Fallible<Vec<u64>> {
        let source = self.source.get(..len * count).ok_or("that is longer than the memory")?;
        let mut moments = vec![monotonic_ns()];
        for (nth, block) in source.chunks(len.max(1)).enumerate() {
            self.memory.put(nth * len, block)?;
            moments.push(monotonic_ns());
        }
        self.memory.barrier()?;
        moments.push(monotonic_ns());
        Ok(moments)
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
        let (mut found, mut wanted) = (vec![0; CHECKED_AT_ONCE], vec![0; CHECKED_AT_ONCE]);
        for from in (0..len).step_by(CHECKED_AT_ONCE) {
            let here = (len - from).min(CHECKED_AT_ONCE);
            let (found, wanted) = (&mut found[..here], &mut wanted[..here]);
            self.region.window().get(from, found)?;
            pattern(wanted, from, seed);
            if found == wanted {
                continue;
            }
            let at = found.iter().zip(wanted.iter()).position(|(found, wanted)| found != wanted);
            return Err(format!("byte {} is not what was put", from + at.unwrap_or_default()).into());
        }
        Ok("same".to_owned())
    }
}

/// Waits until a number is in the first word.
fn await_word(region: &Region, number: u64, pause: impl Fn()) -> Fallible<()> {
    let window = region.window();
    let word = window.atomic_u64(0)?;
    let started = Instant::now();
    // Acquire: what the peer has put before it is there.
    while word.load(Ordering::Acquire) != number {
        if started.elapsed() > GIVE_UP_AFTER {
            return Err("the peer has not responded".into());
        }
        pause();
    }
    Ok(())
}
