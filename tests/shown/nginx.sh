# nginx of AArch64: a master, and a worker on each core of two islands. Clients: the host, RISC-V's curl, x86-64's wget.
nginx='/programs/arm64/nginx -c /tmp/nginx.conf'
curl='/programs/riscv64/curl -s'
mkdir -p /tmp/www /var/log/nginx /var/lib/nginx
seq -w 0 149999 >/tmp/www/file
echo 'www-data:x:33:33::/tmp/www:/bin/false' >>/etc/passwd
echo 'www-data:x:33:' >>/etc/group
configure() {
    cat >/tmp/nginx.conf <<CONFIG
user www-data;
worker_processes 3;
worker_cpu_affinity 0000000000000000010000000000000000 0100000000000000000000000000000000 1000000000000000000000000000000000;
pid /tmp/nginx.pid;
error_log /tmp/nginx.log notice;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    server {
        listen 80 backlog=256;
        root /tmp/www;
        location = /version { return 200 "$1\n"; }
        location = /done { access_log /tmp/done; return 200; }
    }
}
CONFIG
}
workers() { cat /proc/[0-9]*/stat 2>/dev/null | awk -v "master=$(cat /tmp/nginx.pid)" '$4 == master { print $1 }'; }
cores() { for worker in $(workers); do cut -d ' ' -f 39 /proc/$worker/stat; done | sort | paste -s -d ' '; }

configure first
$nginx
for _ in $(seq 100); do $curl http://127.0.0.1/version && break || sleep 0.1; done
workers=$(workers)
for _ in $(seq 100); do [ "$(cores)" = '16 32 33' ] && break; sleep 0.1; done
echo "workers on cores $(cores)"
# One connection for both.
$curl -o /tmp/got -w '%{num_connects} %{size_download}\n' http://127.0.0.1/file --next -s -o /tmp/got.part -w '%{num_connects} %{size_download}\n' -r 7000-7013 http://127.0.0.1/file
cmp /tmp/got /tmp/www/file && cat /tmp/got.part
wget -q -O - http://127.0.0.1/file | cmp - /tmp/www/file && echo fetched by wget
$curl -I http://127.0.0.1/nothing | tr -d '\r' | head -n 1
echo ready
# Until the host says that all is done.
while [ ! -s /tmp/done ]; do sleep 0.2; done
configure second
$nginx -s reload
for _ in $(seq 100); do [ "$($curl http://127.0.0.1/version)" = second ] && break; sleep 0.1; done
for worker in $workers; do for _ in $(seq 100); do [ -e /proc/$worker ] && sleep 0.1 || break; done; [ -e /proc/$worker ] && echo "$worker is left"; done
$curl http://127.0.0.1/version
echo "workers on cores $(cores)"
master=$(cat /tmp/nginx.pid)
$nginx -s quit
for _ in $(seq 100); do [ -e /proc/$master ] && sleep 0.1 || break; done
$curl http://127.0.0.1/version; echo "curl: $?"
grep -E '\[(alert|crit|emerg|error|warn)\]' /tmp/nginx.log | grep -v 'No such file'
echo ended
