//! The machine's network to the outside: what its islands' QEMUs are started with, and files of the guest's about it.
//!
//! It is QEMU's own ("user network", slirp), which needs no rights: programs of the machine reach what the host's user reaches, and the host as
//! 10.0.X.2. Nothing outside reaches the machine, but what is published, on 127.0.0.1 of the host.

use std::{
    fmt, fs,
    io::ErrorKind as Io,
    net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket},
    str::FromStr,
};

use motet_error::{Error, ErrorKind, Result};
use motet_machine::MachineSpec;
use rustix::{
    net::{getsockname, listen, sockopt::socket_acceptconn},
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};

/// A port of the host, of 127.0.0.1, that leads to one in the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// Of the host.
    pub host: u16,
    /// In the machine.
    pub guest: u16,
    /// UDP instead of TCP.
    pub udp: bool,
}

impl Published {
    const fn protocol(self) -> &'static str {
        if self.udp { "udp" } else { "tcp" }
    }
}

impl FromStr for Published {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (ports, udp) = match text.split_once('/') {
            None | Some((_, "tcp")) => (text.split('/').next().unwrap_or_default(), false),
            Some((ports, "udp")) => (ports, true),
            Some((_, other)) => return Err(format!("unknown protocol \"{other}\"; known: tcp, udp")),
        };
        let form = || "HOST_PORT:GUEST_PORT, or with /udp behind it, for instance 8080:80".to_owned();
        let (host, guest) = ports.split_once(':').ok_or_else(form)?;
        let port = |text: &str| {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(form());
            }
            let port = text.parse().ok().filter(|&port: &u16| port != 0);
            port.ok_or_else(|| format!("there is no port {text}; ports are 1 to 65535"))
        };
        Ok(Self { host: port(host)?, guest: port(guest)?, udp })
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.host, self.guest, self.protocol())
    }
}

/// Which islands have a network device, and what is published at the first one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Network {
    /// Islands, each with its number in its kernel, by which the kernel knows its network.
    islands: Vec<(usize, usize)>,
    published: Vec<Published>,
}

impl Network {
    /// A network of the islands whose description says so, or of the first one if none does.
    ///
    /// # Errors
    /// A port of the host is published twice.
    pub fn new(machine: &MachineSpec, published: Vec<Published>) -> Result<Self> {
        for (index, one) in published.iter().enumerate() {
            if published[..index].iter().any(|other| (other.host, other.udp) == (one.host, one.udp)) {
                let message = format!("--publish: port {}/{} of the host is there twice", one.host, one.protocol());
                return Err(Error::new(ErrorKind::Usage, message));
            }
        }
        let number = |index| if machine.multikernel.is_some() { 0 } else { index };
        let described = (0..machine.islands.len()).filter(|&index| machine.islands[index].network);
        let mut islands: Vec<_> = described.map(|index| (index, number(index))).collect();
        if islands.is_empty() {
            islands.push((0, 0));
        }
        Ok(Self { islands, published })
    }

    /// Whether the machine has one.
    pub fn exists(&self) -> bool {
        !self.islands.is_empty()
    }

    /// Finds out whether the ports can be had: QEMU only says that it could not set something up.
    ///
    /// # Errors
    /// Which cannot, and why.
    pub fn check_ports(&self) -> Result<()> {
        for one in &self.published {
            let at = (Ipv4Addr::LOCALHOST, one.host);
            let opened = if one.udp { UdpSocket::bind(at).map(drop) } else { TcpListener::bind(at).map(drop) };
            let Err(error) = opened else { continue };
            let why = if error.kind() == Io::AddrInUse {
                "another program uses it".to_owned()
            } else if error.kind() == Io::PermissionDenied {
                "this user may not use it; ports from 1024 on are for everybody".to_owned()
            } else {
                error.to_string()
            };
            let message = format!("--publish {one}: port {} of this host: {why}", one.host);
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(())
    }

    /// Lengthens the lists in which connections to published ports wait until an island's QEMU takes them. It has lists of one (libslirp), so of many that come at
    /// once the host's kernel drops many, and their clients try again after seconds, ever later. Where the host does not permit it, that stays so.
    pub fn lengthen_lists(&self, island: usize, qemu: u32) {
        let is_first = self.islands.first().is_some_and(|&(index, _)| index == island);
        let published = |port: u16| self.published.iter().any(|one| !one.udp && one.host == port);
        if !is_first || self.published.is_empty() {
            return;
        }
        let process = Pid::from_raw(qemu.cast_signed()).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let (Some(Ok(process)), Ok(open)) = (process, fs::read_dir(format!("/proc/{qemu}/fd"))) else { return };
        for number in open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            let Ok(socket) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
            let address = getsockname(&socket).ok().and_then(|address| SocketAddrV4::try_from(address).ok());
            if address.is_some_and(|address| address.ip().is_loopback() && published(address.port()))
                && socket_acceptconn(&socket).is_ok_and(|listens| listens)
            {
                let _ = listen(&socket, WAITING_MAX);
            }
        }
    }

    /// Arguments for an island's QEMU: none, or a device and the network behind it.
    pub fn arguments(&self, island: usize) -> Vec<String> {
        let Some(place) = self.islands.iter().position(|&(index, _)| index == island) else { return Vec::new() };
        let (_, number) = self.islands[place];
        let mut user = format!("user,id=network,ipv6=off,net={}/24", address(number, 0));
        if place == 0 {
            for Published { host, guest, udp } in &self.published {
                let protocol = if *udp { "udp" } else { "tcp" };
                user += &format!(",hostfwd={protocol}:127.0.0.1:{host}-{}:{guest}", address(number, OWN));
            }
        }
        let mac = format!("52:54:00:4d:6f:{:02x}", island + 1);
        let device = format!("virtio-net-pci,netdev=network,mac={mac},disable-legacy=on,romfile=,vectors=1");
        ["-netdev".into(), user, "-device".into(), device].into()
    }

    /// Files below `/etc` about it, for a machine that has it.
    pub fn files(&self) -> Vec<(&'static str, String)> {
        let Some(&(_, first)) = self.islands.first() else { return Vec::new() };
        let mut numbers: Vec<_> = self.islands.iter().map(|&(_, number)| number).collect();
        numbers.dedup();
        let hosts = numbers.iter().map(|&number| format!("{} motet\n", address(number, OWN)));
        vec![
            ("etc/resolv.conf", format!("nameserver {}\n", address(first, NAMES))),
            ("etc/hosts", format!("127.0.0.1 localhost\n{}", hosts.collect::<String>())),
        ]
    }
}

/// Connections that wait at a published port until QEMU takes them: more than a machine has at once, and fewer than Linux allows (`net.core.somaxconn`).
const WAITING_MAX: i32 = 1024;

/// What QEMU says when it cannot have a port that is published.
pub(crate) const PORT_REFUSED: &str = "Could not set up host forwarding rule";

/// The last byte of an island's own address, and of its server of names (docs/machines.md).
const OWN: u8 = 15;
const NAMES: u8 = 3;

/// An address of the network of the island that has this number.
fn address(number: usize, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 2 + number as u8, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(networks: [bool; 3]) -> MachineSpec {
        let islands = networks.iter().zip("abc".chars()).map(|(network, name)| {
            format!("[[island]]\nname = \"{name}\"\nisa = \"riscv64\"\ncores = 1\nnetwork = {network}\n")
        });
        MachineSpec::parse(&format!("[pool]\nsize = \"64MiB\"\n{}", islands.collect::<String>())).unwrap()
    }

    #[test]
    fn ports_are_read_and_what_is_none_is_explained() {
        let read = |text: &str| text.parse::<Published>();
        assert_eq!(read("8080:80"), Ok(Published { host: 8080, guest: 80, udp: false }));
        assert_eq!(read("8080:80/tcp"), read("8080:80"));
        assert_eq!(read("65535:1/udp"), Ok(Published { host: 65535, guest: 1, udp: true }));
        for text in
            ["", "80", ":", "80:", ":80", "+1:2", "-1:2", "a:b", "1:2:3", "1 :2", "0x50:80", "/udp", "127.0.0.1:80:80"]
        {
            assert!(read(text).unwrap_err().starts_with("HOST_PORT:GUEST_PORT"), "{text}");
        }
        for (text, port) in
            [("0:80", "0"), ("80:0", "0"), ("65536:80", "65536"), ("80:99999999999999999999", "99999999999999999999")]
        {
            assert_eq!(read(text).unwrap_err(), format!("there is no port {port}; ports are 1 to 65535"), "{text}");
        }
        assert_eq!(read("1:2/sctp").unwrap_err(), "unknown protocol \"sctp\"; known: tcp, udp");
        assert!(read("1:2/").is_err() && read("1:2/udp/tcp").is_err());
    }

    #[test]
    fn a_port_of_the_host_is_published_once() {
        let new = |texts: &[&str]| {
            Network::new(&machine([false; 3]), texts.iter().map(|text| text.parse().unwrap()).collect())
        };
        assert!(new(&["1:2", "3:2", "1:2/udp"]).is_ok());
        let error = new(&["1:2", "3:2", "1:4"]).unwrap_err();
        assert_eq!(
            (error.exit_status(), error.message.as_str()),
            (64, "--publish: port 1/tcp of the host is there twice")
        );
    }

    #[test]
    fn devices_are_where_the_machine_says_or_at_the_first_island() {
        let ports = || vec!["8080:80".parse().unwrap(), "53:5353/udp".parse().unwrap()];
        let islands = |networks, published| {
            let network = Network::new(&machine(networks), published).unwrap();
            (0..3).map(|island| network.arguments(island).join(" ")).collect::<Vec<_>>()
        };
        let [first, second, third] = islands([false; 3], ports()).try_into().unwrap();
        assert!(first.contains(
            "net=10.0.2.0/24,hostfwd=tcp:127.0.0.1:8080-10.0.2.15:80,hostfwd=udp:127.0.0.1:53-10.0.2.15:5353 "
        ));
        assert!(first.contains("disable-legacy=on") && second.is_empty() && third.is_empty());
        let [first, second, third] = islands([false, true, true], ports()).try_into().unwrap();
        assert!(first.is_empty() && second.contains("10.0.3.15:80") && third.contains("net=10.0.4.0/24 "));
        assert!(!third.contains("hostfwd"));
        assert!(Network::default().arguments(0).is_empty() && !Network::default().exists());
    }

    #[test]
    fn the_guest_learns_where_names_are_looked_up() {
        let network = Network::new(&machine([false, true, false]), Vec::new()).unwrap();
        let [(_, names), (_, hosts)] = network.files().try_into().unwrap();
        assert_eq!(names, "nameserver 10.0.3.3\n");
        assert_eq!(hosts, "127.0.0.1 localhost\n10.0.3.15 motet\n");
        assert!(Network::default().files().is_empty());
    }

    #[test]
    fn a_port_that_is_in_use_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let network = |udp| Network::new(&machine([false; 3]), vec![Published { host: port, guest: 80, udp }]).unwrap();
        let error = network(false).check_ports().unwrap_err();
        let want = format!("--publish {port}:80/tcp: port {port} of this host: another program uses it");
        assert_eq!((error.exit_status(), error.message), (69, want));
        drop(taken);
        network(false).check_ports().unwrap();
    }
}
