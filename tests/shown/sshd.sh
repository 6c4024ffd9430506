# OpenSSH's server, of RISC-V. /in has the key that the host made.
sshd=/programs/riscv64/sshd
mkdir -p /run/sshd /root/.ssh /etc/ssh
echo 'sshd:x:100:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
cp /in/key.pub /root/.ssh/authorized_keys
chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/authorized_keys
/programs/riscv64/ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
cat >/tmp/sshd_config <<CONFIG
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
UsePAM no
PidFile /tmp/sshd.pid
Subsystem sftp /usr/lib/openssh/sftp-server
CONFIG
$sshd -f /tmp/sshd_config -E /tmp/sshd.log
echo ready
# Until a client says that all is done.
while [ ! -e /tmp/done ]; do sleep 0.2; done
kill $(cat /tmp/sshd.pid)
[ -z "$VERBOSE" ] || cat /tmp/sshd.log
echo ended
