// One Node process that uses better-sqlite3 with the extension, the way its README says. One JSON request a line on standard input, one answer a line.
//
//   node better_sqlite3_host.js <folder with node_modules> <extension>
'use strict';
const fs = require('fs');
const path = require('path');
const [modules, extension] = process.argv.slice(2);
const Database = require(path.join(modules, 'node_modules', 'better-sqlite3'));

const aux = new Database(':memory:');
aux.loadExtension(extension);
let main = null;

const answers = {
  // Hosts without URI names: onepen_use() once, then the plain name.
  open({ home, name, settings }) {
    if (settings) aux.prepare('SELECT onepen_use(?, ?)').get(home, settings);
    else aux.prepare('SELECT onepen_use(?)').get(home);
    main = new Database(name + '.onepen');
    return {};
  },
  sql({ sql, conn }) {
    const db = conn === 'aux' ? aux : main;
    const statement = db.prepare(sql);
    if (!statement.reader) {
      statement.run();
      return { rows: [] };
    }
    return { rows: statement.raw().all() };
  },
  // As a script that calls process.exit() somewhere: nobody closes anything.
  leave({ code }) {
    process.exit(code);
  },
  close() {
    main.close();
    main = null;
    return {};
  },
};

// better-sqlite3 names codes; the number of the primary code is what other hosts show.
const CODES = { SQLITE_ERROR: 1, SQLITE_BUSY: 5, SQLITE_READONLY: 8, SQLITE_IOERR: 10, SQLITE_CORRUPT: 11, SQLITE_FULL: 13, SQLITE_CANTOPEN: 14, SQLITE_MISUSE: 21, SQLITE_AUTH: 23 };

function obey(line) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = { ok: true, ...answers[request.op](request) };
  } catch (error) {
    answer = { ok: false, code: CODES[String(error.code).split('_').slice(0, 2).join('_')] ?? 0, name: String(error.code), message: error.message };
  }
  fs.writeSync(1, JSON.stringify(answer) + '\n');
}

const chunk = Buffer.alloc(1 << 16);
let pending = '';
for (;;) {
  const size = fs.readSync(0, chunk, 0, chunk.length, null);
  if (size === 0) break;
  pending += chunk.toString('utf8', 0, size);
  let end;
  while ((end = pending.indexOf('\n')) >= 0) {
    obey(pending.slice(0, end));
    pending = pending.slice(end + 1);
  }
}
if (main) main.close();
aux.close();
