// Worker threads, buffers, JSON, compression, hashes and child processes; prints digests.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { createHash } = require('crypto');
const { execFileSync, spawnSync } = require('child_process');
const zlib = require('zlib');

const digest = (data) => createHash('sha256').update(data).digest('hex').slice(0, 16);

function random(seed) {
	let state = seed;
	return (n) => { state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff; return (state >>> 8) % n; };
}

function work(seed) {
	const number = random(seed);
	const buffers = [];
	let sum = 0;
	for (let i = 0; i < 4000; i++) {
		const slot = number(500);
		if (buffers[slot]) sum += buffers[slot].length + buffers[slot][buffers[slot].length >> 1];
		buffers[slot] = Buffer.alloc(1 + number(20000), number(256));
	}
	const packed = zlib.deflateSync(Buffer.concat(buffers.filter(Boolean)));
	return [sum, digest(zlib.inflateSync(packed))];
}

if (!isMainThread) {
	const shared = new Int32Array(workerData.shared);
	Atomics.add(shared, 0, workerData.seed);
	parentPort.postMessage({ seed: workerData.seed, result: work(workerData.seed) });
} else {
	execFileSync(process.env.APPS + '/served', [String(process.pid)], { stdio: 'inherit' });
	const number = random(7);
	const records = Array.from({ length: 20000 }, (_, id) => (
		{ id, name: 'x'.repeat(number(50)), tags: Array.from({ length: 5 }, () => number(1000)) }));
	const text = JSON.stringify(records);
	console.log('json', text.length, digest(JSON.stringify(JSON.parse(text))));

	const map = new Map();
	for (let i = 0; i < 200000; i++) map.set(`key${number(50000)}`, i);
	console.log('map', map.size, [...map.values()].reduce((a, b) => (a + b) % 1000003, 0));
	console.log('text', digest(text.replace(/"name":"(x*)"/g, (_, x) => `${x.length}`)));
	const child = spawnSync(process.execPath, ['-e', 'console.log([..."x".repeat(99999)].length)']);
	console.log('child', child.status, child.stdout.toString().trim());

	const shared = new SharedArrayBuffer(4);
	const answers = [];
	const seeds = Array.from({ length: 12 }, (_, i) => i + 1);
	const next = () => {
		const seed = seeds.shift();
		if (!seed) return;
		const worker = new Worker(__filename, { workerData: { seed, shared } });
		worker.on('message', (m) => answers.push(m));
		worker.on('error', (e) => { console.log('worker', seed, e.message); process.exitCode = 1; });
		worker.on('exit', next);
	};
	for (let i = 0; i < 4; i++) next();
	process.on('exit', () => {
		answers.sort((a, b) => a.seed - b.seed);
		console.log('workers', new Int32Array(shared)[0], JSON.stringify(answers));
	});
}
