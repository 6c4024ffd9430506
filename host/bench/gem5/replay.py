"""What gem5's Ruby, protocol MESI_Three_Level, counts for a trace of several cores (host/coherence/src/interleaved.rs).

Run by gem5, as `motet bench sim-accuracy --gem5 PATH` does: gem5.opt [-d FOLDER] replay.py MACHINE TRACE. MACHINE is JSON: sets
and ways of each cache, and the cycles that a hit in each costs, load to use. Prints one line, "motet: " and the counts as JSON.

gem5 calls a core's L1s "L0", its L2 "L1", and the last level, which all cores share, "L2". Every access has a tick of its own, so far
behind the one before that this is complete: what gem5 overlaps otherwise, it does one after the other here.
"""

import gzip
import json
import os
import struct
import sys

import m5
from m5.defines import buildEnv
from m5.objects import (
    AddrRange,
    Directory_Controller,
    L0Cache_Controller,
    L1Cache_Controller,
    L2Cache_Controller,
    LRURP,
    MessageBuffer,
    Root,
    RubyCache,
    RubyDirectoryMemory,
    RubyPortProxy,
    RubyPrefetcher,
    RubySequencer,
    RubySystem,
    SimpleExtLink,
    SimpleMemory,
    SimpleNetwork,
    SrcClockDomain,
    Switch,
    System,
    TrafficGen,
    VoltageDomain,
)

LINE = 64
# Ticks are picoseconds; one cycle of everything.
CYCLE = 1000
# From one access to the next.
APART = 4000 * CYCLE
ACCESS_BYTES = 8
# Cycles of a message through the network: a link, the router, a link.
NETWORK = 3

# gem5's numbers: MemCmd::Command and Request::INST_FETCH. The packet traces of its traffic generator have them.
READ, WRITE = 1, 4
INST_FETCH = 0x100


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(*fields):
    """A protobuf message of numbers and byte strings, with its length before it."""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        else:
            out += varint(number << 3) + varint(value)
    return varint(len(out)) + out


def write_packets(path, steps):
    """A packet trace (gem5's src/proto/packet.proto) of (tick, kind, address)."""
    with open(path, "wb") as out:
        out.write(struct.pack("<I", 0x356D6567))
        out.write(message((1, b"motet"), (3, 10**12)))
        for tick, kind, address in steps:
            command = READ if kind in "fl" else WRITE
            flags = INST_FETCH if kind == "f" else 0
            fields = ((1, tick), (2, command), (3, address), (4, ACCESS_BYTES), (5, flags))
            out.write(message(*fields))


def read_trace(path):
    with gzip.open(path, "rt") as lines:
        words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return [(int(core), kind, int(address, 16)) for core, kind, address in words]


def latencies(cycles):
    """gem5's latency of each message, so that an access that a level serves costs what the machine says, load to use."""
    l2_response = cycles["l2"] - cycles["l1"] - 1
    l3_way = cycles["l3"] - cycles["l2"] - 2 * NETWORK
    memory = cycles["memory"] - cycles["l3"] - 2 * NETWORK - 3
    return {
        "l1": cycles["l1"],
        "l2_request": l3_way // 2,
        "l2_response": l2_response,
        "l3_request": 1,
        "l3_response": l3_way - l3_way // 2,
        "memory": memory,
    }


def cache(shape, **more):
    return RubyCache(
        size=f"{shape['sets'] * shape['ways'] * LINE}B",
        assoc=shape["ways"],
        replacement_policy=LRURP(),
        start_index_bit=6,
        **more,
    )


def buffers(network, controller, to_network=(), from_network=()):
    for name in to_network:
        setattr(controller, name, MessageBuffer(out_port=network.in_port))
    for name in from_network:
        setattr(controller, name, MessageBuffer(in_port=network.out_port))


def core(number, machine, ruby):
    """A core's private levels, and the sequencer that its accesses come through."""
    cycles = machine["cycles"]
    data = cache(machine["l1d"])
    private = L0Cache_Controller(
        version=number,
        Icache=cache(machine["l1i"], is_icache=True),
        Dcache=data,
        mandatory_queue_latency=cycles["l1"],
        request_latency=1,
        response_latency=1,
        send_evictions=False,
        prefetcher=RubyPrefetcher(),
        enable_prefetch=False,
        ruby_system=ruby,
        mandatoryQueue=MessageBuffer(),
        prefetchQueue=MessageBuffer(),
        bufferToL1=MessageBuffer(ordered=True),
        bufferFromL1=MessageBuffer(ordered=True),
    )
    private.sequencer = RubySequencer(
        version=number,
        dcache=data,
        ruby_system=ruby,
        # No access meets another one; one only has to be told from none.
        deadlock_threshold=1000000,
    )
    second = L1Cache_Controller(
        version=number,
        cache=cache(machine["l2"]),
        l2_select_num_bits=0,
        cluster_id=0,
        l1_request_latency=cycles["l2_request"],
        l1_response_latency=cycles["l2_response"],
        ruby_system=ruby,
        bufferFromL0=private.bufferToL1,
        bufferToL0=private.bufferFromL1,
    )
    buffers(
        ruby.network,
        second,
        to_network=("requestToL2", "responseToL2", "unblockToL2"),
        from_network=("requestFromL2", "responseFromL2"),
    )
    return private, second


def shared(machine, ruby):
    """The last level."""
    last = L2Cache_Controller(
        version=0,
        L2cache=cache(machine["l3"]),
        cluster_id=0,
        l2_request_latency=machine["cycles"]["l3_request"],
        l2_response_latency=machine["cycles"]["l3_response"],
        ruby_system=ruby,
    )
    buffers(
        ruby.network,
        last,
        to_network=("DirRequestFromL2Cache", "L1RequestFromL2Cache", "responseFromL2Cache"),
        from_network=("unblockToL2Cache", "L1RequestToL2Cache", "responseToL2Cache"),
    )
    return last


def directory(machine, ruby, memory):
    near = Directory_Controller(
        version=0,
        directory=RubyDirectoryMemory(),
        addr_ranges=[memory.range],
        ruby_system=ruby,
        requestToMemory=MessageBuffer(),
        responseFromMemory=MessageBuffer(),
    )
    buffers(ruby.network, near, ("responseFromDir",), ("requestToDir", "responseToDir"))
    near.memory_out_port = memory.port
    return near


def build(machine, steps, folder):
    """The machine, with a traffic generator in front of each core that does what the trace says."""
    system = System(
        mem_mode="timing",
        mem_ranges=[AddrRange(machine["memory_bytes"])],
        cache_line_size=LINE,
        clk_domain=SrcClockDomain(clock=f"{CYCLE}ps", voltage_domain=VoltageDomain()),
    )
    system.memory = SimpleMemory(
        range=system.mem_ranges[0], latency=f"{machine['cycles']['memory'] * CYCLE}ps", bandwidth="0GB/s"
    )
    ruby = system.ruby = RubySystem(num_of_sequencers=machine["cores"], number_of_virtual_networks=3)
    ruby.network = SimpleNetwork(netifs=[], ruby_system=ruby, number_of_virtual_networks=3)
    cores = [core(number, machine, ruby) for number in range(machine["cores"])]
    ruby.l0 = [private for private, _ in cores]
    ruby.l1 = [second for _, second in cores]
    ruby.l2 = shared(machine, ruby)
    ruby.directory = directory(machine, ruby, system.memory)
    controllers = [*ruby.l0, *ruby.l1, ruby.l2, ruby.directory]
    router = Switch(router_id=0)
    ruby.network.routers = [router]
    ruby.network.ext_links = [
        SimpleExtLink(link_id=number, ext_node=controller, int_node=router)
        for number, controller in enumerate(controllers)
    ]
    ruby.network.int_links = []
    ruby.network.setup_buffers()
    system.proxy = RubyPortProxy(ruby_system=ruby)
    system.system_port = system.proxy.in_ports
    # An access that begins at tick 0 would begin before the caches do.
    ticks = [(index + 1) * APART for index in range(len(steps))]
    generators = []
    for number, private in enumerate(ruby.l0):
        packets, config = (os.path.join(folder, f"core{number}.{end}") for end in ("packets", "cfg"))
        own = [(tick, kind, address) for tick, (who, kind, address) in zip(ticks, steps) if who == number]
        write_packets(packets, own)
        with open(config, "w") as out:
            out.write(f"STATE 0 {ticks[-1] + 2 * APART} TRACE {packets} 0\nINIT 0\nTRANSITION 0 0 1\n")
        generators.append(TrafficGen(config_file=config, progress_check="1s"))
        generators[-1].port = private.sequencer.in_ports
    system.generators = generators
    return system, ticks[-1] + APART


def statistics(path):
    """A statistics file of gem5: its numbers by name."""
    numbers = {}
    with open(path) as lines:
        for line in lines:
            words = line.split()
            if len(words) >= 2:
                try:
                    numbers[words[0]] = float(words[1])
                except ValueError:
                    pass
    return numbers


def tally(numbers):
    """The counts of motet_coherence::interleaved::Tally, out of gem5's of transitions: how often each event met each state."""

    def events(machine, *pairs):
        names = (f"system.ruby.{machine}_Controller.{state}.{event}" for state, event in pairs)
        # Of one controller there is only the number itself.
        return int(sum(numbers.get(f"{name}::total", numbers.get(name, 0)) for name in names))

    def each(states, names):
        return [(state, name) for state in states for name in names]

    latency = "system.ruby.m_latencyHistSeqr"
    accesses = numbers[f"{latency}::samples"]
    return {
        "fetches": events("L0Cache", *each(("I", "S", "E", "M"), ("Ifetch",))),
        "data": events("L0Cache", *each(("I", "S", "E", "M"), ("Load", "Store"))),
        "fetches_beyond_l1": events("L0Cache", ("I", "Ifetch")),
        "data_beyond_l1": events("L0Cache", ("I", "Load"), ("I", "Store"), ("S", "Store")),
        "beyond_l2": events("L1Cache", ("I", "Load"), ("I", "Store"), ("S", "Store"), ("SS", "Store")),
        "memory_reads": events("Directory", ("I", "Fetch")),
        "downgrades": events("L1Cache", *each(("EE", "MM"), ("Fwd_GETS",))),
        "invalidations": events("L1Cache", ("SS", "Inv"), *each(("EE", "MM"), ("Inv", "Fwd_GETX"))),
        "memory_write_backs": events("Directory", ("M", "Data")),
        "latency_ps": round(numbers[f"{latency}::mean"] * accesses) * CYCLE,
        # Not compared: copies that a core had dropped without telling, and was asked for nevertheless.
        "asked_in_vain": events("L1Cache", ("I", "Inv")),
    }


def fail(what):
    """gem5 takes numbers only as its exit status."""
    print(f"motet: {what}", file=sys.stderr, flush=True)
    sys.exit(1)


def main():
    if buildEnv.get("PROTOCOL") != "MESI_Three_Level":
        fail("this gem5 has not got the protocol MESI_Three_Level")
    with open(sys.argv[1]) as file:
        machine = json.load(file)
    machine["cycles"] = latencies(machine["cycles"])
    steps = read_trace(sys.argv[2])
    system, end = build(machine, steps, m5.options.outdir)
    # Kept, or the objects go.
    root = Root(full_system=False, system=system)
    m5.instantiate()
    m5.simulate(end)
    m5.stats.dump()
    counts = tally(statistics(os.path.join(m5.options.outdir, "stats.txt")))
    if counts["fetches"] + counts["data"] != len(steps):
        fail(f"gem5 did {counts['fetches'] + counts['data']} of {len(steps)} accesses")
    print("motet: " + json.dumps(counts), flush=True)
    return root


main()
