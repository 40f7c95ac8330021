// What Node.js does with sockets.
'use strict';
const crypto = require('crypto');
const http = require('http');
const net = require('net');
const { fork } = require('child_process');
const { once } = require('events');

const DATA = Buffer.from(Array.from({ length: 2000000 }, (_, at) => (at * 31) % 251));
const digest = data => `${data.length} ${crypto.createHash('sha256').update(data).digest('hex').slice(0, 16)}`;

async function listen(server) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server.address().port;
}

async function all(stream) {
    const parts = [];
    for await (const part of stream) parts.push(part);
    return Buffer.concat(parts);
}

async function streams() {
    const server = net.createServer({ allowHalfOpen: true }, socket => socket.pipe(socket));
    const port = await listen(server);
    const clients = Array.from({ length: 10 }, async (_, number) => {
        const socket = net.connect({ port, host: '127.0.0.1' });
        socket.end(DATA.subarray(number * 1000));
        return digest(await all(socket));
    });
    console.log('net', await Promise.all(clients));
    server.close();
    const refused = net.connect(1, '127.0.0.1');
    const [error] = await once(refused, 'error');
    console.log('refused', error.code);
}

async function requests() {
    const server = http.createServer(async (request, response) => {
        const body = await all(request);
        response.end(`${request.method} ${request.url} ${digest(body)}`);
    });
    const port = await listen(server);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
    const ask = (number) => new Promise((resolve, reject) => {
        const request = http.request({ port, host: '127.0.0.1', agent, method: 'POST', path: `/${number}` });
        request.on('response', async response => resolve((await all(response)).toString()));
        request.on('error', reject);
        request.end(DATA.subarray(0, number * 10000));
    });
    console.log('http', await Promise.all(Array.from({ length: 40 }, (_, number) => ask(number))));
    agent.destroy();
    server.close();
}

// The connection is passed to another process over a UNIX socket.
async function handed() {
    const child = fork(process.argv[1], ['child']);
    const server = net.createServer({ pauseOnConnect: true }, socket => child.send('yours', socket));
    const port = await listen(server);
    const socket = net.connect(port, '127.0.0.1');
    socket.end('for the child');
    console.log('handed', (await all(socket)).toString());
    child.disconnect();
    server.close();
    console.log('child', (await once(child, 'exit'))[0]);
}

function child() {
    process.on('message', async (_, socket) => {
        socket.on('data', data => socket.end(data.toString().toUpperCase()));
        socket.resume();
    });
}

async function load(seconds) {
    const server = net.createServer({ noDelay: true }, socket => socket.pipe(socket));
    const port = await listen(server);
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    const start = process.hrtime.bigint();
    const until = start + BigInt(seconds) * 1000000000n;
    let count = 0;
    await new Promise(resolve => {
        socket.on('data', () => {
            count += 1;
            if (process.hrtime.bigint() < until) socket.write('x'); else resolve();
        });
        socket.write('x');
    });
    console.log('rate', count / (Number(process.hrtime.bigint() - start) / 1e9));
    process.exit(0);
}

async function main() {
    if (process.argv[2] === 'child') return child();
    if (process.argv[2] === 'load') return load(Number(process.argv[3]));
    await streams();
    await requests();
    await handed();
    console.log('done');
}

main();
