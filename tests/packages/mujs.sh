# A JavaScript interpreter, whose package has no tests: a program that uses most of it.
build() { make -j2 CC="$CC" AR="$AR" HAVE_READLINE=no build=debug build/debug/mujs; }
check() {
    cat >test.js <<'JS'
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
print(fib(12), JSON.stringify({ a: [1, 2.5, "x\u00e9", null, true], b: { c: -0.1 } }));
print(JSON.stringify(JSON.parse('{"k":[{"z":1e21},[],""]}')), [3, 1, 2, 10].sort().join(), [1, 2, 3].map(function (x) { return x * x }));
print("a-b-c".replace(/-(.)/g, function (_, c) { return c.toUpperCase() }), /(\d+)-(\d+)/.exec("10-20"), "x,y".split(","));
print(Math.sqrt(2), (255).toString(16), parseFloat("1.5e3x"), parseInt("0x1f"), (1 / 3).toFixed(5), (12345.678).toExponential(2));
try { null.x } catch (e) { print(e.name, e.message) }
try { (function f() { f() })() } catch (e) { print("deep") }
print(new Date(0).toISOString(), Date.UTC(2000, 1, 29), isNaN(NaN), encodeURIComponent("a b&\u20ac"));
var o = { get x() { return 7 }, set x(v) { print("set", v) } }; o.x = o.x + 1;
print(Object.keys({ p: 1, q: 2 }), [1, 2, 3, 4].slice(1, 3), [].concat([1], [2, [3]]).length, "abc".charCodeAt(1));
for (var i = 0, s = ""; i < 300; i++) s += String.fromCharCode(65 + i % 26);
print(s.length, s.lastIndexOf("Z"), eval("1 + 2 * 3"), typeof undefined, [5, 6].indexOf(6), new RegExp("^a.c$", "i").test("AbC"));
JS
    build/debug/mujs test.js
}
files="build/debug/mujs"
