//! What is told of the loopback device in `/sys/class/net/lo`, and what the protocols count in `/proc/PID/net` (`snmp`, `netstat`).
//!
//! Nothing is sent in packets, so nothing that counts packets is ever more than 0. The names are Linux's, which programs look for.

use core::fmt::{Result, Write};

use motet_hal::Machine;

use super::{super::socket::interface, Entry as E, text::Text};

/// Of each protocol, what is counted.
const SNMP: [&str; 5] = [
    concat!(
        "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests ",
        "OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates OutTransmits",
    ),
    concat!(
        "Icmp: InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos InEchoReps ",
        "InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutRateLimitGlobal OutRateLimitHost OutDestUnreachs ",
        "OutTimeExcds OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps OutTimestampReps OutAddrMasks ",
        "OutAddrMaskReps",
    ),
    concat!(
        "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs ",
        "RetransSegs InErrs OutRsts InCsumErrors",
    ),
    "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors",
    "UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors",
];
const NETSTAT: [&str; 3] = [
    concat!(
        "TcpExt: SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned OutOfWindowIcmps ",
        "LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive PAWSEstab BeyondWindow TSEcrRejected PAWSOldAck PAWSTimewait ",
        "DelayedACKs DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPHPHits TCPPureAcks TCPHPAcks TCPRenoRecovery ",
        "TCPSackRecovery TCPSACKReneging TCPSACKReorder TCPRenoReorder TCPTSReorder TCPFullUndo TCPPartialUndo TCPDSACKUndo ",
        "TCPLossUndo TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans TCPSlowStartRetrans TCPTimeouts ",
        "TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail TCPRcvCollapsed TCPBacklogCoalesce TCPDSACKOldSent ",
        "TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory TCPAbortOnTimeout ",
        "TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures TCPMemoryPressuresChrono TCPSACKDiscard TCPDSACKIgnoredOld ",
        "TCPDSACKIgnoredNoUndo TCPSpuriousRTOs TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged ",
        "TCPSackShiftFallback TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter TCPTimeWaitOverflow ",
        "TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue TCPOFODrop TCPOFOMerge TCPChallengeACK ",
        "TCPSYNChallenge TCPFastOpenActive TCPFastOpenActiveFail TCPFastOpenPassive TCPFastOpenPassiveFail TCPFastOpenListenOverflow ",
        "TCPFastOpenCookieReqd TCPFastOpenBlackhole TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv ",
        "TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent TCPHystartTrainDetect TCPHystartTrainCwnd ",
        "TCPHystartDelayDetect TCPHystartDelayCwnd TCPACKSkippedSynRecv TCPACKSkippedPAWS TCPACKSkippedSeq TCPACKSkippedFinWait2 ",
        "TCPACKSkippedTimeWait TCPACKSkippedChallenge TCPWinProbe TCPKeepAlive TCPMTUPFail TCPMTUPSuccess TCPDelivered TCPDeliveredCE ",
        "TCPAckCompressed TCPZeroWindowDrop TCPRcvQDrop TCPWqueueTooBig TCPFastOpenPassiveAltKey TcpTimeoutRehash ",
        "TcpDuplicateDataRehash TCPDSACKRecvSegs TCPDSACKIgnoredDubious TCPMigrateReqSuccess TCPMigrateReqFailure TCPPLBRehash ",
        "TCPAORequired TCPAOBad TCPAOKeyNotFound TCPAOGood TCPAODroppedIcmps",
    ),
    concat!(
        "IpExt: InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets InMcastOctets ",
        "OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts ReasmOverlaps",
    ),
    concat!(
        "MPTcpExt: MPCapableSYNRX MPCapableSYNTX MPCapableSYNACKRX MPCapableACKRX MPCapableFallbackACK MPCapableFallbackSYNACK ",
        "MPCapableSYNTXDrop MPCapableSYNTXDisabled MPCapableEndpAttempt MPFallbackTokenInit MPTCPRetrans MPJoinNoTokenFound ",
        "MPJoinSynRx MPJoinSynBackupRx MPJoinSynAckRx MPJoinSynAckBackupRx MPJoinSynAckHMacFailure MPJoinAckRx MPJoinAckHMacFailure ",
        "MPJoinRejected MPJoinSynTx MPJoinSynTxCreatSkErr MPJoinSynTxBindErr MPJoinSynTxConnectErr DSSNotMatching ",
        "DSSCorruptionFallback DSSCorruptionReset InfiniteMapTx InfiniteMapRx DSSNoMatchTCP DataCsumErr OFOQueueTail OFOQueue OFOMerge ",
        "NoDSSInWindow DuplicateData AddAddr AddAddrTx AddAddrTxDrop EchoAdd EchoAddTx EchoAddTxDrop PortAdd AddAddrDrop ",
        "MPJoinPortSynRx MPJoinPortSynAckRx MPJoinPortAckRx MismatchPortSynRx MismatchPortAckRx RmAddr RmAddrDrop RmAddrTx ",
        "RmAddrTxDrop RmSubflow MPPrioTx MPPrioRx MPFailTx MPFailRx MPFastcloseTx MPFastcloseRx MPRstTx MPRstRx SubflowStale ",
        "SubflowRecover SndWndShared RcvWndShared RcvWndConflictUpdate RcvWndConflict MPCurrEstab Blackhole MPCapableDataFallback ",
        "MD5SigFallback DssFallback SimultConnectFallback FallbackFailed WinProbe",
    ),
];
/// What the protocols do, as new connections on Linux have it: by protocol and name.
const SET: [(&str, &str, i64); 5] = [
    ("Ip:", "Forwarding", 2),
    ("Ip:", "DefaultTTL", 64),
    ("Tcp:", "RtoAlgorithm", 1),
    ("Tcp:", "RtoMin", 200),
    ("Tcp:", "RtoMax", 120_000),
];

/// A file of `/sys/class/net/lo`.
pub fn show<M: Machine>(entry: E, out: &mut Text<M>) -> Result {
    match entry {
        E::LoopbackAddress | E::LoopbackBroadcast => {
            out.write_str("00")?;
            (1..interface::HARDWARE_LEN).try_for_each(|_| out.write_str(":00"))?;
            out.write_char('\n')
        }
        E::LoopbackAddressLen => writeln!(out, "{}", interface::HARDWARE_LEN),
        E::LoopbackMtu => writeln!(out, "{}", interface::MTU),
        E::LoopbackState => out.write_str("unknown\n"),
        // What goes on there (`IFF_RUNNING`) is not set, but seen.
        E::LoopbackFlags => writeln!(out, "{:#x}", interface::FLAGS & !interface::RUNNING),
        E::LoopbackIndex | E::LoopbackLink => writeln!(out, "{}", interface::INDEX),
        E::LoopbackType => writeln!(out, "{}", interface::HARDWARE),
        E::LoopbackQueue => writeln!(out, "{}", interface::QUEUE_LEN),
        E::LoopbackEvent => writeln!(out, "INTERFACE={}\nIFINDEX={}", interface::NAME, interface::INDEX),
        E::LoopbackDevice => out.write_str("0x0\n"),
        // The kernel has named it, always the same (`NET_NAME_PREDICTABLE`).
        E::LoopbackNamed => out.write_str("2\n"),
        E::LoopbackCarrier => out.write_str("1\n"),
        _ => out.write_str("0\n"),
    }
}

/// `snmp`; so many are connected by TCP.
pub fn snmp<M: Machine>(connected: u64, out: &mut Text<M>) -> Result {
    let value = |protocol: &str, name: &str| match name {
        "CurrEstab" => connected.cast_signed(),
        "MaxConn" => -1,
        _ => SET.iter().find(|set| (set.0, set.1) == (protocol, name)).map_or(0, |set| set.2),
    };
    SNMP.iter().try_for_each(|names| both_lines(names, value, out))
}

/// `netstat`.
pub fn netstat<M: Machine>(out: &mut Text<M>) -> Result {
    NETSTAT.iter().try_for_each(|names| both_lines(names, |_, _| 0, out))
}

/// The names, and the values behind the protocol.
fn both_lines<M: Machine>(names: &str, value: impl Fn(&str, &str) -> i64, out: &mut Text<M>) -> Result {
    writeln!(out, "{names}")?;
    let mut names = names.split(' ');
    let protocol = names.next().unwrap_or("");
    out.write_str(protocol)?;
    names.try_for_each(|name| write!(out, " {}", value(protocol, name)))?;
    out.write_char('\n')
}
