# git: RISC-V's pushes and clones over HTTP, which AArch64's serves, and AArch64's over ssh, which RISC-V's serves.
export HOME=/root GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=shown GIT_AUTHOR_EMAIL=shown@motet GIT_COMMITTER_NAME=shown GIT_COMMITTER_EMAIL=shown@motet
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
arm() { GIT_EXEC_PATH=/programs/arm64 /programs/arm64/git "$@"; }
riscv() { GIT_EXEC_PATH=/programs/riscv64 /programs/riscv64/git "$@"; }
mkdir -p /root /srv/www/cgi-bin
printf '[gc]\nauto = 0\n[pack]\nthreads = 2\n[init]\ndefaultBranch = main\n' >/root/.gitconfig

# The web server is busybox's.
arm init -q --bare /srv/shown.git
arm -C /srv/shown.git config http.receivepack true
cat >/srv/www/cgi-bin/git <<'CGI'
#!/bin/sh
export GIT_PROJECT_ROOT=/srv GIT_HTTP_EXPORT_ALL=1 GIT_EXEC_PATH=/programs/arm64
exec /programs/arm64/git-http-backend
CGI
chmod +x /srv/www/cgi-bin/git
httpd -p 127.0.0.1:8000 -h /srv/www
web=http://127.0.0.1:8000/cgi-bin/git/shown.git

riscv init -q /tmp/first
cd /tmp/first
for number in $(seq 60); do seq $number $((number + 400)) >file$number; done
riscv add .
riscv commit -q -m first
riscv push -q $web main && echo pushed over http
riscv clone -q $web /tmp/second && echo cloned over http
(cd /tmp/first && for file in file*; do cmp $file /tmp/second/$file || exit; done) && echo equal

# The same server's repository over ssh.
ssh=/programs/riscv64
mkdir -p /run/sshd /root/.ssh /etc/ssh
echo 'sshd:x:100:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
for key in /root/.ssh/id_ed25519 /etc/ssh/ssh_host_ed25519_key; do $ssh/ssh-keygen -q -t ed25519 -N '' -f $key; done
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/*
printf 'UsePAM no\nListenAddress 127.0.0.1\nPidFile /tmp/sshd.pid\n' >/tmp/sshd_config
$ssh/sshd -f /tmp/sshd_config
export GIT_SSH_COMMAND="$ssh/ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR"
served='GIT_EXEC_PATH=/programs/riscv64 /programs/riscv64/git'
arm clone -q -u "$served-upload-pack" root@127.0.0.1:/srv/shown.git /tmp/third && echo cloned over ssh
cd /tmp/third
seq 1000 >file1
arm mv file2 moved
arm commit -q -a -m second
arm push -q --receive-pack="$served-receive-pack" origin main && echo pushed over ssh

cd /tmp/second
riscv pull -q && riscv log --format=%s
cmp file1 /tmp/third/file1 && cmp moved /tmp/first/file2 && echo pulled
for folder in /srv/shown.git /tmp/second /tmp/third; do
    riscv -C $folder fsck --full --strict --no-progress && arm -C $folder rev-parse main
done
arm -C /srv/shown.git gc -q && riscv -C /srv/shown.git fsck --full --strict --no-progress && echo packed
riscv -C /srv/shown.git count-objects -v | grep -E '^(count|packs):'
kill $(cat /tmp/sshd.pid)
