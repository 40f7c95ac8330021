//! Message passing over TCP, between processes of this machine.

use anyhow::Result;

use super::script::Script;
use crate::{
    case::{Case, Over, Session},
    room::Room,
    running::Running,
};

pub(super) const MPICH: Case = Case {
    name: "mpich",
    what: "MPICH over the TCP of UCX or libfabric, two processes, no shared memory",
    over: Over::Sockets,
    needs: &[("mpicc.mpich", "libmpich-dev"), ("mpirun.mpich", "mpich")],
    open: |room| {
        let program = compile(&room, "mpicc.mpich", &["-DWITHOUT_FINALIZE"])?;
        // Without these it would not use TCP at all inside a machine.
        let script = Script::new(room, &["mpirun.mpich", "-n", "2", &program], "round trips/s")
            .variable("MPIR_CVAR_NOLOCAL", "1")
            .variable("UCX_TLS", "tcp,self")
            .variable("UCX_NET_DEVICES", "lo")
            .variable("FI_PROVIDER", "tcp")
            .variable("FI_TCP_IFACE", "lo")
            .variable("HYDRA_IFACE", "lo");
        Ok(Box::new(script))
    },
};

pub(super) const OPENMPI: Case = Case {
    name: "openmpi",
    what: "Open MPI over its TCP transport, two processes",
    over: Over::Sockets,
    needs: &[("mpicc.openmpi", "libopenmpi-dev"), ("mpirun.openmpi", "openmpi-bin")],
    open: |room| {
        let program = compile(&room, "mpicc.openmpi", &[])?;
        let run = ["mpirun.openmpi", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self"];
        let local =
            ["--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo", "-n", "2", &program];
        let script = Script::new(room, &[&run[..], &local].concat(), "round trips/s")
            .variable("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .variable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        Ok(Box::new(script))
    },
};

fn compile(room: &Room, compiler: &str, more: &[&str]) -> Result<String> {
    let (source, program) = (room.file("mpi.c", include_str!("../../files/mpi.c"))?, room.text("mpi"));
    let source = source.display().to_string();
    room.prepare(compiler, &[&["-O2", "-o", &program, &source], more].concat())?;
    Ok(program)
}

pub(super) const PVM: Case = Case {
    name: "pvm",
    what: "PVM: a daemon, four tasks, their sums",
    over: Over::Sockets,
    needs: &[("pvmd", "pvm"), ("/usr/include/pvm3.h", "pvm-dev")],
    open: |mut room| {
        let (source, program) =
            (room.file("pvm.c", include_str!("../../files/pvm.c"))?, room.text("pvm_sum"));
        room.prepare("cc", &["-O2", "-o", &program, &source.display().to_string(), "-lpvm3"])?;
        // It refuses to be root.
        room.as_user("nobody")?;
        Ok(Box::new(Pvm { room, program }))
    },
};

struct Pvm {
    room: Room,
    program: String,
}

impl Session for Pvm {
    fn check(&mut self) -> Result<Vec<String>> {
        let folder = self.room.folder("pvm")?.display().to_string();
        let variables = [("PVM_TMP", folder.as_str()), ("PVM_ROOT", "/usr/lib/pvm3"), ("PVM_VMID", "")];
        let daemon: Running = self.room.start_with("/usr/bin/pvmd", &["-nlocalhost"], &variables)?;
        // It says where it listens in a file; the library of the program reads that.
        for _ in 0..1000 {
            if std::fs::read_dir(&folder)?
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().starts_with("pvmd."))
            {
                break;
            }
            if let Some(reason) = daemon.ended()? {
                anyhow::bail!("the daemon ended: {reason}");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let said = self.room.run_with(&self.program, &[], &variables)?.good()?;
        Ok(said.lines().map(str::to_owned).collect())
    }
}
