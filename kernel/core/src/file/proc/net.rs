//! `/proc/PID/net`: sockets, and the loopback device. There is one network, so all processes see the same (proc_net(5)).
//!
//! Nothing goes through the device in packets: what one socket sends is in the other one's queue. So the device has counted none.

use core::fmt::{Result, Write};

use motet_hal::Machine;
use motet_layout::Cell64;

use super::{
    super::socket::{
        self,
        interface::{self, Interface},
        listed::{List, Row},
    },
    Entry as E, Line, loopback,
    text::Text,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cursor::Cursor,
};

/// What has no entries, or the same ones always.
const DEV: &str = concat!(
    "Inter-|   Receive                                                |  Transmit\n",
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n",
);
const ROUTE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
const ARP: &str = "IP address       HW type     Flags       HW address            Mask     Device\n";
const RAW: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";
const PACKET: &str = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n";
const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
const TCP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const UDP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";

/// Linux fills lines of addresses of version 4 with blanks up to these lengths.
const TCP_WIDTH: usize = 149;
const UDP_WIDTH: usize = 127;
const ROUTE_WIDTH: usize = 127;
/// Bytes of the longest line of an address of version 6.
const LINE_MAX: usize = 256;
/// What a look at the sockets of a frame costs, and at some frames that have none (`call::cost`).
const LOOK: u64 = cost::STEP + 8 * cost::OBJECT;
/// States of connections that count as such, as Linux numbers them.
const ESTABLISHED: u32 = 1;
const CLOSE_WAIT: u32 = 8;
/// Of a socket of `AF_UNIX` that listens (`__SO_ACCEPTCON`).
const LISTENS: u32 = 1 << 16;

/// A file of `/proc/PID/net`.
pub fn show<M: Machine>(call: &Call<M>, entry: E, out: &mut Text<M>) -> Result {
    match entry {
        E::NetTcp => internet(call, List::Tcp, out),
        E::NetTcp6 => internet(call, List::Tcp6, out),
        E::NetUdp => internet(call, List::Udp, out),
        E::NetUdp6 => internet(call, List::Udp6, out),
        E::NetUnix => each(call, List::Local, out, |out| out.write_str(UNIX), |out, _, row| unix_line(out, row)),
        E::NetDev => {
            out.write_str(DEV)?;
            each_interface(call, |interface| device_line(out, interface))
        }
        E::NetRoute => {
            writeln!(out, "{ROUTE:<ROUTE_WIDTH$}")?;
            each_interface(call, |interface| routes_by(out, interface))
        }
        E::NetArp => out.write_str(ARP),
        E::NetRaw => out.write_str(RAW),
        E::NetRaw6 => out.write_str(UDP6).and_then(|()| out.write_char('\n')),
        E::NetPacket => out.write_str(PACKET),
        E::NetRoute6 => routes_v6(out),
        E::NetNetstat => loopback::netstat(out),
        // Address, number of the device, bits of its network, scope (this machine), flags (for good).
        E::NetInterfaces6 => {
            writeln!(out, "{:032x} {:02x} 80 10 80 {:>8}", 1, interface::INDEX, interface::NAME)
        }
        _ => Ok(()),
    }
}

fn each_interface<M: Machine>(call: &Call<M>, mut each: impl FnMut(&Interface) -> Result) -> Result {
    let mut told = Ok(());
    interface::all(call.cpu, |interface| told = told.and_then(|()| each(interface)));
    told
}

fn device_line<M: Machine>(out: &mut Text<M>, interface: &Interface) -> Result {
    write!(out, "{:>6}:", core::str::from_utf8(interface.name()).unwrap_or(""))?;
    let widths = [7, 7, 4, 4, 4, 5, 10, 9, 8, 7, 4, 4, 4, 5, 7, 10];
    widths.into_iter().try_for_each(|width| write!(out, " {:>width$}", 0))?;
    out.write_char('\n')
}

/// The routes by a device: to all other networks, by its router, and to its own. Addresses are numbers of this machine's order.
fn routes_by<M: Machine>(out: &mut Text<M>, interface: &Interface) -> Result {
    let Some(router) = interface.router() else { return Ok(()) };
    let word = |octets: [u8; 4]| u32::from_le_bytes(octets);
    let mask = interface.mask();
    let own = core::array::from_fn(|index| interface.address.octets()[index] & mask[index]);
    for (to, by, flags, mask) in [(0, word(router.octets()), 3, 0), (word(own), 0, 1, word(mask))] {
        let mut bytes = [0; LINE_MAX];
        let mut line = Line { bytes: &mut bytes, len: 0 };
        let name = core::str::from_utf8(interface.name()).unwrap_or("");
        write!(line, "{name}\t{to:08X}\t{by:08X}\t{flags:04X}\t0\t0\t0\t{mask:08X}\t0\t0\t0")?;
        let len = line.len;
        writeln!(out, "{:<ROUTE_WIDTH$}", core::str::from_utf8(&bytes[..len]).unwrap_or(""))?;
    }
    Ok(())
}

/// A line for each socket of a list, with its number in the list.
fn each<M: Machine>(
    call: &Call<M>,
    list: List,
    out: &mut Text<M>,
    begin: impl FnOnce(&mut Text<M>) -> Result,
    line: impl Fn(&mut Text<M>, u64, &Row) -> Result,
) -> Result {
    // What a line is of: how many were before it, 1 + the place where its socket is looked for, and whether it is the line of the socket there.
    const PLACE_BITS: u32 = 40;
    let key = out.begin_lines();
    if key == 0 {
        begin(out)?;
    }
    let begin_at = |out: &mut Text<M>, count: u64, at: u64, is_there: bool| {
        out.begin_whole_line(count << PLACE_BITS | (at + 1) << 1 | u64::from(is_there), LINE_MAX as u64)
    };
    let (mut count, mut at) = (key >> PLACE_BITS, (key % (1 << PLACE_BITS) >> 1).saturating_sub(1));
    // The reader has the beginning of this line, or all before it.
    let mut goes_on = key & 1 != 0;
    let mut has_part = goes_on && out.is_within_line(LINE_MAX as u64);
    loop {
        if !goes_on && !begin_at(out, count, at, false) {
            return Ok(());
        }
        let (row, next) = socket::next_listed(call.cpu, at, |row| row.list == list && row.state != 0);
        out.looked(LOOK);
        // The next place is behind what was found.
        let goes_on = core::mem::take(&mut goes_on) && row.is_some() && next == Some(at + 1);
        if core::mem::take(&mut has_part) && !goes_on {
            out.end_lost_line()?;
            count += 1;
        }
        if let (Some(row), Some(next)) = (row, next) {
            if !goes_on && !begin_at(out, count, next - 1, true) {
                return Ok(());
            }
            line(out, count, &row)?;
            count += 1;
        }
        let Some(next) = next else {
            // Whoever reads on finds nothing more.
            begin_at(out, count, at, false);
            return Ok(());
        };
        at = next;
    }
}

fn internet<M: Machine>(call: &Call<M>, list: List, out: &mut Text<M>) -> Result {
    let (header, width) = match list {
        List::Tcp => (TCP, TCP_WIDTH),
        List::Udp => (UDP, UDP_WIDTH),
        List::Udp6 => (UDP6, 0),
        _ => (TCP6, 0),
    };
    let begin = |out: &mut Text<M>| writeln!(out, "{header:<width$}");
    each(call, list, out, begin, |out, count, row| {
        let mut bytes = [0; LINE_MAX];
        let mut line = Line { bytes: &mut bytes, len: 0 };
        internet_line(&mut line, count, row)?;
        let len = line.len;
        writeln!(out, "{:<width$}", core::str::from_utf8(&bytes[..len]).unwrap_or(""))
    })
}

fn internet_line(line: &mut Line, count: u64, row: &Row) -> Result {
    let is_of_datagrams = matches!(row.list, List::Udp | List::Udp6);
    let width = if is_of_datagrams { 5 } else { 4 };
    write!(line, "{count:width$}:")?;
    let is_v4 = matches!(row.list, List::Tcp | List::Udp);
    for name in [&row.own, &row.peer] {
        line.write_char(' ')?;
        write_endpoint(line, name.bytes(), is_v4)?;
    }
    // What was sent has come.
    write!(line, " {:02X} {:08X}:{:08X} 00:{:08X} {:08X}", row.state, 0, row.waiting, 0, 0)?;
    write!(line, " {:5} {:8} {} ", row.owner, 0, row.inode)?;
    match (is_of_datagrams, row.listens) {
        (true, _) => write!(line, "{} {:016x} 0", row.refs, row.number),
        // What Linux tells of a new connection: times (in ticks), and how many packets may be under way.
        (false, true) => write!(line, "1 {:016x} 100 0 0 10 0", row.number),
        (false, false) => write!(line, "1 {:016x} 20 0 0 10 -1", row.number),
    }
}

/// Address and port of a socket's name, which is the port and the address; each word of the address as a number of this machine's order.
fn write_endpoint(line: &mut Line, name: &[u8], is_v4: bool) -> Result {
    let (port, address) = match name.split_first_chunk::<2>() {
        Some((port, address)) => (u16::from_be_bytes(*port), address),
        None => (0, &[0; 16][..]),
    };
    let (words, _) = address.as_chunks::<4>();
    let words = if is_v4 { words.get(3..).unwrap_or(&[]) } else { words };
    words.iter().try_for_each(|word| write!(line, "{:08X}", u32::from_le_bytes(*word)))?;
    write!(line, ":{port:04X}")
}

fn unix_line<M: Machine>(out: &mut Text<M>, row: &Row) -> Result {
    let flags = if row.listens { LISTENS } else { 0 };
    write!(out, "{:016x}: {:08X} {:08X} {flags:08X}", row.number, row.refs, 0)?;
    write!(out, " {:04X} {:02X} {:5}", row.kind, row.state, row.inode)?;
    match row.own.bytes() {
        [] => {}
        [0, name @ ..] => {
            out.write_str(" @")?;
            name.iter().try_for_each(|byte| out.write_bytes(&[if *byte == 0 { b'@' } else { *byte }]))?;
        }
        path => {
            out.write_char(' ')?;
            out.write_bytes(path)?;
        }
    }
    out.write_char('\n')
}

/// The routes of version 6: to the device's own address, and none to anything else, before and after it. Where to, from where, by whom; metric, uses, flags.
fn routes_v6<M: Machine>(out: &mut Text<M>) -> Result {
    const NOWHERE: (u32, u32, u32) = (0, u32::MAX, 0x0020_0200);
    for (last, metric, flags) in [NOWHERE, (1, 0, 0x8020_0001), NOWHERE] {
        let bits = 128 * last;
        write!(
            out,
            "{last:032x} {bits:02x} {:032x} 00 {:032x} {metric:08x} {:08x} {:08x} {flags:08x}",
            0,
            0,
            1 + last,
            0
        )?;
        writeln!(out, " {:>8}", interface::NAME)?;
    }
    Ok(())
}

/// `sockstat`, `sockstat6`, `snmp`: how many sockets there are. Counting gives way to other work, and goes on.
pub fn counted<M: Machine>(call: &Call<M>, entry: E, position: u64, into: &mut Cursor<M>) -> SysResult {
    let (tcp_list, udp_list) = if entry == E::NetSockstat6 { (List::Tcp6, List::Udp6) } else { (List::Tcp, List::Udp) };
    let is_tcp = |row: &Row| matches!(row.list, List::Tcp | List::Tcp6);
    let counts = count(call, |row| {
        let is_connected = is_tcp(row) && matches!(row.state, ESTABLISHED | CLOSE_WAIT);
        let is_listed = |list| row.list == list && row.state != 0;
        [is_listed(tcp_list), if entry == E::NetSnmp { is_connected } else { is_tcp(row) }, is_listed(udp_list)]
    });
    let [tcp, second, udp] = counts?;
    let mut out = Text::new(into, position);
    // An error means that the buffer is full or bad; `finish` knows which.
    let _ = match entry {
        E::NetSnmp => loopback::snmp(second, &mut out),
        E::NetSockstat6 => writeln!(out, "TCP6: inuse {tcp}\nUDP6: inuse {udp}")
            .and_then(|()| out.write_str("UDPLITE6: inuse 0\nRAW6: inuse 0\nFRAG6: inuse 0 memory 0\n")),
        _ => writeln!(out, "sockets: used {}", socket::count(call.cpu))
            .and_then(|()| writeln!(out, "TCP: inuse {tcp} orphan 0 tw 0 alloc {second} mem 0"))
            .and_then(|()| writeln!(out, "UDP: inuse {udp} mem 0"))
            .and_then(|()| out.write_str("UDPLITE: inuse 0\nRAW: inuse 0\nFRAG: inuse 0 memory 0\n")),
    };
    out.finish()
}

/// How many sockets have each of three properties.
fn count<M: Machine>(call: &Call<M>, of: impl Fn(&Row) -> [bool; 3]) -> core::result::Result<[u64; 3], Stop> {
    /// Bits of each count.
    const BITS: u32 = 21;
    let [place, _, counts, _] = &call.thread.scratch;
    loop {
        let (row, next) = socket::next_listed(call.cpu, place.get(), |row| row.list != List::Local);
        if let Some(row) = row {
            let more = of(&row).into_iter().rev().fold(0, |sum, is_one| sum << BITS | u64::from(is_one));
            counts.set(counts.get() + more);
        }
        let Some(next) = next else { break };
        place.set(next);
        call.pause_point(LOOK)?;
    }
    let counted = counts.get();
    [place, counts].into_iter().for_each(|word: &Cell64| word.set(0));
    Ok([0, 1, 2].map(|index| counted >> (BITS * index) & ((1 << BITS) - 1)))
}
