//! All layouts together, and their hash.

use crate::*;

macro_rules! layouts {
    ($($t:ty),* $(,)?) => { &[$(<$t as PoolStruct>::LAYOUT),*] };
}

/// Every structure of the pool.
pub const LAYOUTS: &[StructLayout] = layouts![
    PoolHeader,
    PoolRange,
    IslandRecord,
    IslandCounters,
    CoreRecord,
    ReadyGroup,
    HostStream,
    MessageRing,
    Peers,
    LentRecord,
    OutgoingRecord,
    AwayRecord,
    KeptRecord,
    PosixTimerRecord,
    WaitQueue,
    MemoryState,
    IslandMemory,
    SlabCache,
    Tty,
    UserFrame,
    GuestSystem,
    VmRegion,
    VmRecord,
    VcpuRecord,
    GuestGicBank,
    GuestGic,
    VectorArea,
    VectorPage,
    BlockRecord,
    FrameRecord,
    WaitNode,
    MoreNodes,
    TreeLinks,
    TimerNode,
    ThreadRecord,
    ThreadMoves,
    CrossingRecord,
    MigrationContext,
    Descriptor,
    CallSlot,
    CredentialsRecord,
    ProcessRecord,
    UserRecord,
    SignalActions,
    SignalAction,
    SpaceRecord,
    FatProgram,
    VmaRecord,
    RangeNode,
    InodeRecord,
    EntryRecord,
    FileRecord,
    FilesRecord,
    PipeRecord,
    IpcState,
    IpcTable,
    IpcObject,
    IpcMessage,
    IpcUndo,
    IpcUndoList,
    IpcUser,
    NotifyState,
    InotifyRecord,
    InodeWatch,
    ToldFrame,
    SocketRecord,
    PacketRecord,
    EventRecord,
    EpollRecord,
    WatchRecord,
    OwnerRecord,
    ClockRecord,
    TraceRing,
    TraceEvent,
    DmaEngine,
    DmaDescriptor,
    DmaList,
    DmaPiece,
    DmaFile,
    DmaCompletion,
    ServiceCore,
    ServiceClient,
    ServiceProcess,
    ServiceThread,
    ServiceMutex,
    ServiceCondition,
    ServiceBarrier,
    ServiceSource,
    ServicePage,
    ServiceWindow,
    ServiceHardware,
    HardwareTable,
    HardwareRegion,
    HardwareLeaf,
    Fpga,
    FpgaRegion,
    FpgaAccelerator,
    FpgaBitstream,
    FpgaChange,
    FpgaInterface,
    FpgaRegisters,
];

/// Hash (FNV-1a, 64 bits) of [`LAYOUTS`]: two kernels may share a pool only if theirs are equal.
pub const FINGERPRINT: u64 = fingerprint(LAYOUTS);

const fn fingerprint(layouts: &[StructLayout]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut s = 0;
    while s < layouts.len() {
        let layout = &layouts[s];
        hash = hash_word(hash_word(hash_str(hash, layout.name), layout.size as u64), layout.align as u64);
        let mut f = 0;
        while f < layout.fields.len() {
            let field = &layout.fields[f];
            hash = hash_word(hash_word(hash_str(hash, field.name), field.offset as u64), field.size as u64);
            f += 1;
        }
        s += 1;
    }
    hash
}

const fn hash_str(mut hash: u64, text: &str) -> u64 {
    let mut i = 0;
    while i < text.len() {
        hash = (hash ^ text.as_bytes()[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash_word(hash, text.len() as u64)
}

const fn hash_word(mut hash: u64, word: u64) -> u64 {
    let mut i = 0;
    while i < 8 {
        hash = (hash ^ ((word >> (8 * i)) & 0xff)).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}
