//! The calls that a program can make, each with its arguments, and their text form.
//!
//! One declaration says everything: a line of text is `name argument=word …`, in this order.

use super::word::{Actor, Choice, Name, Set, Slot, Word, choices};

choices! {
    /// Domain and type of a socket.
    Kind {
        Tcp4 = "tcp4", Tcp6 = "tcp6", Udp4 = "udp4", Udp6 = "udp6",
        UnixStream = "stream", UnixDgram = "dgram", UnixSeq = "seqpacket",
    }
    /// Flags of a new descriptor.
    Make { Nonblock = "nonblock", Cloexec = "cloexec" }
    /// Where a socket is bound: `kept` is the address that the name already holds.
    At { Loopback = "loopback", Any = "any", Abstract = "abstract", Kept = "kept" }
    /// Which function accepts.
    AcceptBy { Accept = "accept", Accept4 = "accept4", Anonymous = "anonymous" }
    /// Which function writes. `raw` is libc's `syscall`.
    SendBy {
        Write = "write", Writev = "writev", Send = "send", Sendto = "sendto", Sendmsg = "sendmsg",
        Sendmmsg = "sendmmsg", Raw = "raw",
    }
    /// Which function reads. `*_chk` are the fortified ones that compilers put in.
    RecvBy {
        Read = "read", Readv = "readv", Recv = "recv", Recvfrom = "recvfrom", Recvmsg = "recvmsg",
        Recvmmsg = "recvmmsg", ReadChk = "read_chk", RecvChk = "recv_chk", RecvfromChk = "recvfrom_chk", Raw = "raw",
    }
    /// Flags of a send.
    SendFlag {
        Dontwait = "dontwait", Nosignal = "nosignal", Oob = "oob", More = "more", Eor = "eor", Fastopen = "fastopen",
    }
    /// Flags of a receive.
    RecvFlag {
        Dontwait = "dontwait", Peek = "peek", Waitall = "waitall", Trunc = "trunc", Oob = "oob", Cloexec = "cloexec",
    }
    /// Directions that end.
    Direction { Read = "read", Write = "write", Both = "both" }
    /// Which function sets a flag of a descriptor.
    SetBy { Fcntl = "fcntl", Ioctl = "ioctl" }
    /// Options of sockets.
    Opt {
        ReuseAddr = "reuseaddr", ReusePort = "reuseport", KeepAlive = "keepalive", Broadcast = "broadcast",
        OobInline = "oobinline", Linger = "linger", RcvLowat = "rcvlowat", RcvTimeo = "rcvtimeo", SndTimeo = "sndtimeo",
        PassCred = "passcred", Error = "error", Type = "type", Domain = "domain", Protocol = "protocol",
        Accepting = "acceptconn", NoDelay = "nodelay", Cork = "cork", KeepIdle = "keepidle", KeepCount = "keepcnt",
        UserTimeout = "usertimeout", V6Only = "v6only", Tos = "tos", Ttl = "ttl", PeerCred = "peercred",
        DeferAccept = "deferaccept", FastOpen = "fastopen", FastOpenConnect = "fastopenconnect",
        SndBuf = "sndbuf",
    }
    /// Which function waits for readiness. `*_open` let every signal through while they wait.
    PollBy {
        Poll = "poll", Ppoll = "ppoll", Select = "select", Pselect = "pselect", PollChk = "poll_chk",
        PpollOpen = "ppoll_open", PselectOpen = "pselect_open",
    }
    /// What poll looks for.
    PollEvent { In = "in", Pri = "pri", Out = "out", Rdhup = "rdhup" }
    /// What an epoll set does with a member.
    CtlOp { Add = "add", Mod = "mod", Del = "del" }
    /// What epoll looks for, and how.
    EpollEvent {
        In = "in", Pri = "pri", Out = "out", Rdhup = "rdhup", Edge = "edge", Oneshot = "oneshot", Exclusive = "exclusive",
    }
    /// Which function waits on an epoll set. `*_open` let every signal through while they wait.
    EpollBy {
        Wait = "wait", Pwait = "pwait", Pwait2 = "pwait2", Raw = "raw", PwaitOpen = "pwait_open",
        Pwait2Open = "pwait2_open",
    }
    /// Signals that programs use.
    Signal { Usr1 = "usr1", Usr2 = "usr2", Pipe = "pipe", Urg = "urg", Kill = "kill", Term = "term" }
    /// What a signal does.
    Disposition { Default = "default", Ignore = "ignore", Handler = "handler", Restart = "restart" }
    /// To whom a signal is sent.
    KillBy { Process = "process", Thread = "thread" }
    /// Blocked or not.
    MaskHow { Block = "block", Unblock = "unblock" }
    /// What of the environment the new image sees: without it, no library is preloaded.
    Environment { Kept = "kept", Empty = "empty" }
    /// Whose address.
    Whose { Own = "own", Peer = "peer" }
    /// What stdio does with a descriptor. It ends with `fclose`, except `dprintf`.
    StdioBy { Write = "write", Read = "read", Dprintf = "dprintf" }
    /// What runs at the same moment in a race.
    Scenario {
        Writers = "writers", Duplex = "duplex", Storm = "storm", Shutdown = "shutdown", Reuse = "reuse", Workers = "workers",
        Accept = "accept", Fork = "fork", Group = "group", Vforks = "vforks", Readers = "readers", Replaced = "replaced",
        Passed = "passed", Handler = "handler", Both = "both", Busy = "busy", Edges = "edges",
    }
    /// What `close_range` does.
    RangeFlag { Cloexec = "cloexec", Unshare = "unshare" }
    /// A request to an `io_uring`.
    RingOp {
        Send = "send", Recv = "recv", Poll = "poll", Accept = "accept", Close = "close", Socket = "socket",
    }
    /// Which function of POSIX aio.
    AioBy { Read = "read", Write = "write", ListRead = "list_read", ListWrite = "list_write" }
    /// In which call a thread is cancelled.
    CancelAt {
        Read = "read", Recv = "recv", Recvmsg = "recvmsg", Write = "write", Send = "send", Accept = "accept",
        Connect = "connect", Poll = "poll", Select = "select", Epoll = "epoll", Close = "close",
    }
    /// When and how: while it waits there, before it comes there, while it waits and may be ended at any
    /// instruction, or not at all, because it does not let itself be.
    CancelHow { Blocked = "blocked", Pending = "pending", Asynchronous = "asynchronous", Disabled = "disabled" }
    /// Numbers that programs do not choose: `last` is the highest that the limit allows, `limit` the next
    /// one.
    NumberOf {
        Minus = "minus", Lowest = "lowest", Zero = "zero", One = "one", Two = "two", Middle = "middle", Last = "last",
        Limit = "limit", Highest = "highest",
    }
    /// What a process has no more of.
    Scarce { Memory = "memory", Descriptors = "descriptors", File = "file", Locked = "locked" }
    /// Which function waits for many descriptors.
    CrowdBy { Poll = "poll", Ppoll = "ppoll", Select = "select", Epoll = "epoll" }
    /// A call with an argument that the kernel refuses.
    WrongBy {
        WritevNowhere = "writev_nowhere", ReadvNowhere = "readv_nowhere", WritevSecond = "writev_second",
        ReadvSecond = "readv_second", WritevMany = "writev_many", ReadvMany = "readv_many", WritevMost = "writev_most",
        ReadvMost = "readv_most", WritevNegative = "writev_negative", ReadvNone = "readv_none", WritevHuge = "writev_huge",
        SendmsgNowhere = "sendmsg_nowhere", RecvmsgNowhere = "recvmsg_nowhere", SendmsgParts = "sendmsg_parts",
        RecvmsgParts = "recvmsg_parts", SendmsgMany = "sendmsg_many", RecvmsgSecond = "recvmsg_second",
        SendmsgControl = "sendmsg_control", SendmsgName = "sendmsg_name", SendmmsgNowhere = "sendmmsg_nowhere",
        RecvmmsgNowhere = "recvmmsg_nowhere", PollNowhere = "poll_nowhere", SelectNowhere = "select_nowhere",
        SelectNegative = "select_negative", EpollWaitNowhere = "epoll_wait_nowhere", EpollWaitNone = "epoll_wait_none",
        EpollCtlNowhere = "epoll_ctl_nowhere", EpollCtlOp = "epoll_ctl_op", PpollTime = "ppoll_time",
        NameNowhere = "name_nowhere", NameLen = "name_len", NameNegative = "name_negative", PeerNowhere = "peer_nowhere",
        ConnectNowhere = "connect_nowhere", ConnectShort = "connect_short", ConnectLong = "connect_long",
        BindNowhere = "bind_nowhere", BindShort = "bind_short", PairNowhere = "pair_nowhere", PipeNowhere = "pipe_nowhere",
        SocketDomain = "socket_domain", SocketType = "socket_type", SocketProtocol = "socket_protocol",
        GetNowhere = "get_nowhere", GetLen = "get_len", GetNegative = "get_negative", SetNowhere = "set_nowhere",
        SetShort = "set_short", SetLevel = "set_level", QueuedNowhere = "queued_nowhere", ShutdownHow = "shutdown_how",
        AcceptFlags = "accept_flags", AcceptLen = "accept_len", DupFlags = "dup_flags",
        Dup3Same = "dup3_same", FcntlCommand = "fcntl_command", RangeBackward = "range_backward",
    }
}

/// A descriptor that poll or select looks at, written `s3:in+out`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// Which.
    pub fd: Slot,
    /// For what.
    pub events: Set<PollEvent>,
}

impl Word for Polled {
    fn write(&self, out: &mut String) {
        self.fd.write(out);
        out.push(':');
        self.events.write(out);
    }
    fn read(text: &str) -> Option<Self> {
        let (fd, events) = text.split_once(':')?;
        Some(Self { fd: Slot::read(fd)?, events: Set::read(events)? })
    }
}

impl Signal {
    /// Its number on this machine (signal(7)).
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Usr1 => libc::SIGUSR1,
            Self::Usr2 => libc::SIGUSR2,
            Self::Pipe => libc::SIGPIPE,
            Self::Urg => libc::SIGURG,
            Self::Kill => libc::SIGKILL,
            Self::Term => libc::SIGTERM,
        }
    }
}

/// Declares the calls: the enumeration, how one is written and how it is read.
macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident $text:literal { $($field:ident: $kind:ty),* $(,)? })*) => {
        /// A call with its arguments.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the arguments are C's")]
        pub enum Call { $($(#[$doc])* $call { $($field: $kind),* }),* }

        /// The names of all calls.
        pub const NAMES: &[&str] = &[$($text),*];

        impl Call {
            /// The name that begins its line.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$call { .. } => $text),* }
            }

            /// Appends its line.
            pub fn write(&self, out: &mut String) {
                out.push_str(self.name());
                match self {
                    $(Self::$call { $($field),* } => {
                        $(
                            out.push(' ');
                            out.push_str(stringify!($field));
                            out.push('=');
                            $field.write(out);
                        )*
                    })*
                }
            }

            /// Reads a line: the name, then every argument, in any order.
            ///
            /// # Errors
            ///
            /// Says which argument is missing or not understood.
            pub fn read(name: &str, arguments: &[(&str, &str)]) -> Result<Self, String> {
                match name {
                    $($text => {
                        let known: &[&str] = &[$(stringify!($field)),*];
                        if let Some((other, _)) = arguments.iter().find(|(key, _)| !known.contains(key)) {
                            return Err(format!("`{name}` has no argument `{other}`"));
                        }
                        Ok(Self::$call { $($field: argument(arguments, name, stringify!($field))?),* })
                    })*
                    _ => Err(format!("there is no call `{name}`")),
                }
            }
        }
    };
}

fn argument<T: Word>(arguments: &[(&str, &str)], call: &str, key: &str) -> Result<T, String> {
    let found = arguments.iter().find(|(name, _)| *name == key);
    let (_, text) = found.ok_or_else(|| format!("`{call}` lacks the argument `{key}`"))?;
    T::read(text).ok_or_else(|| format!("`{key}={text}` of `{call}` is not understood"))
}

calls! {
    /// A TCP socket gets TCP_NODELAY at once: how long Nagle's algorithm waits is nothing that can be
    /// compared.
    Socket "socket" { to: Slot, kind: Kind, with: Set<Make> }
    Pair "socketpair" { to: Slot, other: Slot, kind: Kind, with: Set<Make> }
    Pipe "pipe" { to: Slot, other: Slot, with: Set<Make> }
    Eventfd "eventfd" { to: Slot, value: u32, with: Set<Make> }
    EpollCreate "epoll_create" { to: Slot, with: Set<Make> }
    /// A file in memory with content, for sendfile.
    Memfd "memfd" { to: Slot, size: u32 }
    /// Binds, and keeps the address that came of it.
    Bind "bind" { fd: Slot, at: At, name: Name }
    Listen "listen" { fd: Slot, backlog: i32 }
    Accept "accept" { fd: Slot, to: Slot, by: AcceptBy, with: Set<Make> }
    Connect "connect" { fd: Slot, name: Name }
    /// `bad` gives an address that is not mapped.
    Send "send" { fd: Slot, len: u32, by: SendBy, flags: Set<SendFlag>, name: Option<Name>, bad: bool }
    Recv "recv" { fd: Slot, len: u32, by: RecvBy, flags: Set<RecvFlag>, bad: bool }
    Sendfile "sendfile" { fd: Slot, from: Slot, len: u32 }
    Splice "splice" { from: Slot, fd: Slot, len: u32 }
    /// Sends descriptors.
    Pass "pass" { fd: Slot, what: Vec<Slot>, len: u32 }
    /// Receives descriptors.
    Take "take" { fd: Slot, to: Vec<Slot>, len: u32, flags: Set<RecvFlag> }
    Shutdown "shutdown" { fd: Slot, how: Direction }
    Close "close" { fd: Slot }
    CloseRange "close_range" { first: Slot, last: Slot, with: Set<RangeFlag> }
    Closefrom "closefrom" { first: Slot }
    Dup "dup" { fd: Slot, to: Slot }
    /// Onto the number that the other slot holds, open or not.
    Dup2 "dup2" { fd: Slot, onto: Slot }
    Dup3 "dup3" { fd: Slot, onto: Slot, with: Set<Make> }
    DupFd "dupfd" { fd: Slot, to: Slot, least: u32, with: Set<Make> }
    /// Flags of the descriptor and of the file.
    Flags "flags" { fd: Slot }
    SetNonblock "nonblock" { fd: Slot, on: bool, by: SetBy }
    SetCloexec "cloexec" { fd: Slot, on: bool, by: SetBy }
    /// FIONREAD.
    Queued "queued" { fd: Slot }
    SetOption "setsockopt" { fd: Slot, option: Opt, value: i32 }
    GetOption "getsockopt" { fd: Slot, option: Opt }
    Address "address" { fd: Slot, of: Whose }
    Poll "poll" { by: PollBy, set: Vec<Polled>, timeout: i32 }
    EpollCtl "epoll_ctl" { fd: Slot, op: CtlOp, member: Slot, events: Set<EpollEvent> }
    EpollWait "epoll_wait" { fd: Slot, by: EpollBy, max: i32, timeout: i32 }
    Handle "handle" { signal: Signal, with: Disposition }
    Mask "mask" { signal: Signal, how: MaskHow }
    Kill "kill" { actor: Actor, signal: Signal, by: KillBy }
    Fork "fork" { actor: Actor }
    Spawn "spawn" { actor: Actor }
    /// A new process in a new image of the executor, made by `posix_spawn`; in it `onto`'s number is `fd`, by
    /// a file action, which no library sees.
    PosixSpawn "posix_spawn" { actor: Actor, fd: Option<Slot>, onto: Option<Slot> }
    /// How many descriptors the process may have: `RLIMIT_NOFILE`.
    Limit "limit" { descriptors: u32 }
    /// The same actor goes on in a new image of the executor.
    Exec "exec" { environment: Environment }
    Exit "exit" { status: u8 }
    Wait "wait" { actor: Actor }
    /// Every descriptor with what fcntl and fstat say of it.
    Table "table" { }
    /// Several calls at once, on connections of their own, of which only some promises are compared.
    Race "race" { scenario: Scenario, kind: Kind, seed: u32 }
    /// One request to an `io_uring` of its own. What it makes comes into `to`.
    Ring "ring" { fd: Slot, op: RingOp, len: u32, to: Slot }
    /// One operation, and the wait for its end. What is not ready is not begun: nothing can take it back.
    Aio "aio" { fd: Slot, by: AioBy, len: u32 }
    /// A thread that is cancelled.
    Cancel "cancel" { fd: Slot, at: CancelAt, how: CancelHow }
    /// `vfork`; the child closes `close`, puts `fd` onto `onto`, and becomes this actor in a new image of the
    /// executor.
    Vfork "vfork" { actor: Actor, close: Option<Slot>, fd: Option<Slot>, onto: Option<Slot> }
    /// The same with a child that exits, and is waited for.
    VforkExit "vfork_exit" { close: Option<Slot>, fd: Option<Slot>, onto: Option<Slot>, status: u8 }
    /// Makes a slot hold a number, which is no call.
    Number "number" { to: Slot, of: NumberOf }
    /// A few calls while there is nothing left.
    Scarcity "scarcity" { of: Scarce, fd: Slot }
    /// So many copies of a descriptor, one wait for all of them, and their end.
    Crowd "crowd" { fd: Slot, by: CrowdBy, copies: u32 }
    /// What no correct program calls.
    Wrong "wrong" { fd: Slot, by: WrongBy }
    /// `fdopen`, one operation, `fclose`.
    Stdio "stdio" { fd: Slot, by: StdioBy, len: u32 }
}
