//! One end of a link over libfabric that obeys lines on its standard input: tests and measurements start one
//! at each end.
//!
//! Each line is answered by one line: `ok …`, or `error …`. It ends with its input.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::RemoteMemory;
use ofi::{Bell, Endpoint, EndpointCard, Exported, MemoryCard, OfiMemory, Peer, Settings, Wanted};
use proto::ids::NodeId;
use shm::region::{Region, RegionOptions};
use shm::sync::Ordering;

type Answer = Result<String, Box<dyn std::error::Error>>;

/// What this end has so far.
#[derive(Default)]
struct End {
    memory: Option<OfiMemory>,
    peer: Option<Arc<Peer>>,
    bell: Option<Bell>,
    exported: Option<Exported>,
    region: Option<Arc<Region>>,
    endpoint: Option<Endpoint>,
}

fn main() {
    let mut end = End::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match end.obey(&words) {
            Ok(said) => println!("ok {said}"),
            Err(error) => println!("error {error}"),
        }
        let _ = std::io::stdout().flush();
    }
}

/// The same bytes at both ends.
fn pattern(offset: usize, len: usize, seed: u64) -> Vec<u8> {
    let byte = |at: usize| ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 29) as u8;
    (offset..offset + len).map(byte).collect()
}

fn compared(offset: usize, found: &[u8], seed: u64) -> Answer {
    let wanted = pattern(offset, found.len(), seed);
    match found.iter().zip(&wanted).position(|(found, wanted)| found != wanted) {
        None => Ok(format!("{} bytes", found.len())),
        Some(at) => Err(format!("byte {} differs: {} is {}", offset + at, wanted[at], found[at]).into()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let digits: Vec<u8> = text.bytes().map(|digit| (digit as char).to_digit(16).unwrap_or(0) as u8).collect();
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn there<T>(what: &Option<T>) -> Result<&T, &'static str> {
    what.as_ref().ok_or("that comes before what it needs")
}

impl End {
    fn obey(&mut self, words: &[&str]) -> Answer {
        let number = |nth: usize| -> Result<u64, Box<dyn std::error::Error>> {
            Ok(words.get(nth).ok_or("a number is missing")?.parse()?)
        };
        let size = |nth: usize| number(nth).map(|number| number as usize);
        match words.first().copied().unwrap_or("") {
            "open" => self.open(words),
            "export" => {
                let region = Arc::new(Region::create(&RegionOptions::new("ofi-peer", size(1)?))?);
                let exported = there(&self.endpoint)?.export(&region)?;
                let card = hex(&exported.card().to_bytes());
                (self.region, self.exported) = (Some(region), Some(exported));
                Ok(card)
            }
            "withdraw" => {
                self.exported = None;
                Ok(String::new())
            }
            "connect" => {
                let card = EndpointCard::from_bytes(&unhex(words.get(1).ok_or("a card is missing")?)?)?;
                let peer = there(&self.endpoint)?.connect("the peer", &card, number(2)?)?;
                self.peer = Some(Arc::new(peer));
                Ok(String::new())
            }
            "memory" => {
                let card = MemoryCard::from_bytes(&unhex(words.get(1).ok_or("a card is missing")?)?)?;
                self.memory = Some(OfiMemory::new(Arc::clone(there(&self.peer)?), NodeId::new(8)?, card));
                Ok(String::new())
            }
            "bell" => {
                let bell = there(&self.endpoint)?.bell()?;
                let id = bell.id().to_string();
                self.bell = Some(bell);
                Ok(id)
            }
            "ring" => Ok(there(&self.peer)?.ring(number(1)?).map(|()| String::new())?),
            "wait" => {
                let count = there(&self.bell)?.wait(number(1)? as u32).ok_or("it did not ring")?;
                Ok(count.to_string())
            }
            "lost" => {
                there(&self.peer)?.lost("the test says so");
                Ok(String::new())
            }
            "close" => {
                *self = Self::default();
                Ok(String::new())
            }
            "busy" => {
                let until = Instant::now() + Duration::from_millis(number(1)?);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                Ok(String::new())
            }
            "counters" => {
                let counters = there(&self.endpoint)?.counters();
                Ok(counters.map(|(name, count)| format!("{name}={count}")).join(" "))
            }
            "fill" | "check" | "own" => self.own_memory(words[0], size(1)?, size(2)?, number(3)?),
            _ => self.remote_memory(words[0], size(1)?, number(2)?, number(3)?),
        }
    }

    fn open(&mut self, words: &[&str]) -> Answer {
        let given = |nth: usize| words.get(nth).copied().filter(|word| *word != "-");
        let wanted = Wanted {
            provider: given(1).map(str::to_owned),
            source: given(2).map(str::parse).transpose()?,
            is_exact: false,
        };
        let mut settings = Settings::default();
        if let Some(limit) = given(3) {
            settings.give_up_after = Duration::from_millis(limit.parse()?);
        }
        let endpoint = Endpoint::open(&wanted, settings)?;
        let (card, offer) = (hex(&endpoint.card()?.to_bytes()), endpoint.offer());
        self.endpoint = Some(endpoint);
        let progress = if offer.is_progress_automatic { "automatic" } else { "manual" };
        Ok(format!("{card} {} {} {progress}", offer.provider, offer.domain))
    }

    fn own_memory(&self, what: &str, offset: usize, len: usize, value: u64) -> Answer {
        let window = there(&self.region)?.window();
        match what {
            "fill" => window.put(offset, &pattern(offset, len, value))?,
            "check" => {
                let mut found = vec![0; len];
                window.get(offset, &mut found)?;
                return compared(offset, &found, value);
            }
            // Adds 1 that often, and leaves what is there then.
            _ => {
                let word = window.atomic_u64(offset)?;
                (0..len).for_each(|_| {
                    word.fetch_add(1, Ordering::SeqCst);
                });
                return Ok(word.load(Ordering::SeqCst).to_string());
            }
        }
        Ok(String::new())
    }

    fn remote_memory(&self, what: &str, offset: usize, first: u64, second: u64) -> Answer {
        let memory = there(&self.memory)?;
        let len = first as usize;
        match what {
            "put" => {
                memory.put(offset, &pattern(offset, len, second))?;
                memory.barrier()?;
            }
            // Without a barrier: what comes after is ordered.
            "begin" => memory.put(offset, &pattern(offset, len, second))?,
            // Until it fails.
            "flood" => {
                let bytes = pattern(offset, len, second);
                loop {
                    memory.put(offset, &bytes)?;
                }
            }
            "get" => {
                let mut found = vec![0; len];
                memory.get(offset, &mut found)?;
                return compared(offset, &found, second);
            }
            // Adds 1 that often.
            "add" => {
                let mut was = 0;
                for _ in 0..first {
                    was = memory.fetch_add_u64(offset, 1)?;
                }
                return Ok(was.to_string());
            }
            "add32" => return Ok(memory.fetch_add_u32(offset, first as u32)?.to_string()),
            "swap" => return Ok(memory.compare_swap_u64(offset, first, second)?.to_string()),
            "swap32" => return Ok(memory.compare_swap_u32(offset, first as u32, second as u32)?.to_string()),
            _ => return Err(format!("`{what}` is no command").into()),
        }
        Ok(String::new())
    }
}
