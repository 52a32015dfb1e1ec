import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { exists, type Fixture, git, useFixture, write } from "../workspace/fixture.ts";
import { GitHttpServer } from "./git-http-server.ts";

const fixture = useFixture();
const servers: GitHttpServer[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const server of servers.splice(0)) await server.close();
});

const PASSWORD = "p@ss:w/rd %41 täglich-5f3c";
const CREDENTIALS = { username: "ci-user-name-0123456", password: PASSWORD };
const USERINFO = `${CREDENTIALS.username}:${encodeURIComponent(PASSWORD)}`;

async function serve(
  f: Fixture,
  credentials: { username: string; password: string } | undefined,
): Promise<{ server: GitHttpServer; port: number }> {
  const server = new GitHttpServer(f.folder, credentials);
  servers.push(server);
  return { server, port: await server.listen() };
}

/** Command lines and environments of all processes but this one and its parents: what `ps e` shows. */
function visibleProcesses(): { name: string; visible: string }[] {
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid)
    .flatMap((pid) => {
      try {
        const [line, environment] = ["cmdline", "environ"].map((file) =>
          readFileSync(`/proc/${pid}/${file}`, "latin1"),
        );
        return [{ name: line!.split("\0")[0]!, visible: `${line}\n${environment}` }];
      } catch {
        return [];
      }
    });
}

function filesWith(folder: string, secrets: string[]): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => secrets.some((secret) => readFileSync(path).includes(secret)));
}

test("credentials of the URL reach the server, and no argv, environment, file or message", async () => {
  const f = fixture();
  f.repository("origin");
  const home = f.path("home");
  vi.stubEnv("HOME", home);
  write(join(home, ".gitconfig"), `[credential]\n\thelper = store\n`);
  const { server, port } = await serve(f, CREDENTIALS);
  const secrets = [
    PASSWORD,
    encodeURIComponent(PASSWORD),
    Buffer.from(`${CREDENTIALS.username}:${PASSWORD}`).toString("base64"),
  ];
  // As /proc shows them: bytes, read one character each.
  const bytes = secrets.map((secret) => Buffer.from(secret).toString("latin1"));
  const seen: string[] = [];
  const leaks: string[] = [];
  server.onAuthorized = async () => {
    for (const { name, visible } of visibleProcesses()) {
      seen.push(name);
      if (bytes.some((secret) => visible.includes(secret))) leaks.push(name);
    }
  };
  const made = await f.fromUrl({ url: `http://${USERINFO}@127.0.0.1:${port}/origin/.git` });
  expect(seen.filter((name) => name.endsWith("git-remote-http")).length).toBeGreaterThan(1);
  expect(leaks).toEqual([]);
  expect(git(made.path, "config", "remote.origin.url")).toBe(`http://127.0.0.1:${port}/origin/.git`);
  expect(filesWith(f.path("host"), [...secrets, CREDENTIALS.username])).toEqual([]);
  // The account's own helper was neither asked nor told.
  expect(exists(home, ".git-credentials")).toBe(false);
  expect(f.progress.join()).not.toContain(CREDENTIALS.username);
});

test("wrong credentials are an error without them", async () => {
  const f = fixture();
  f.repository("origin");
  const { port } = await serve(f, { username: "someone", password: "else" });
  const made = f.fromUrl({ url: `http://${USERINFO}@127.0.0.1:${port}/origin/.git` });
  const error = await made.then(
    () => undefined,
    (failure: Error) => failure,
  );
  expect(error).toMatchObject({
    code: "git-source-unreachable",
    message: expect.stringContaining(`127.0.0.1:${port}/origin`),
  });
  const shown = JSON.stringify([error?.message, error?.stack, f.progress]);
  for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), CREDENTIALS.username])
    expect(shown).not.toContain(secret);
});

test("a source that asks for credentials and gets none is an error at once", async () => {
  const f = fixture();
  f.repository("origin");
  vi.stubEnv("SSH_ASKPASS", "/bin/false");
  const { port } = await serve(f, CREDENTIALS);
  await expect(f.fromUrl({ url: `http://127.0.0.1:${port}/origin/.git` })).rejects.toMatchObject({
    code: "git-source-unreachable",
  });
});

test("a redirect to another place does not get the credentials", async () => {
  const f = fixture();
  f.repository("origin");
  const thief = await serve(f, { username: "never", password: "given" });
  const heard: string[] = [];
  thief.server.intercept = (request) => {
    heard.push(request.headers.authorization ?? "");
    return false;
  };
  const { server, port } = await serve(f, CREDENTIALS);
  server.intercept = (request, response) => {
    response.writeHead(302, { location: `http://127.0.0.1:${thief.port}${request.url}` }).end();
    return true;
  };
  await expect(f.fromUrl({ url: `http://${USERINFO}@127.0.0.1:${port}/origin/.git` })).rejects.toMatchObject({
    code: "git-source-unreachable",
  });
  expect(heard.length).toBeGreaterThan(0);
  expect(heard.filter((header) => header !== "")).toEqual([]);
});

test("a lone user name is a token when no helper of the account knows the host", async () => {
  const f = fixture();
  f.repository("origin");
  const { port } = await serve(f, { username: "token-0123456789", password: "" });
  const made = await f.fromUrl({ url: `http://token-0123456789@127.0.0.1:${port}/origin/.git` });
  expect(filesWith(made.path, ["token-0123456789"])).toEqual([]);
});

test("a lone user name leaves the password to the account's helpers", async () => {
  const f = fixture();
  f.repository("origin");
  const { port } = await serve(f, CREDENTIALS);
  const helper = f.path("helper");
  write(
    helper,
    `#!/bin/sh\ntest "$1" = get && printf 'username=%s\\npassword=%s\\n' '${CREDENTIALS.username}' '${PASSWORD}'\n`,
  );
  chmodSync(helper, 0o755);
  write(f.path("account.gitconfig"), `[credential]\n\thelper = ${helper}\n`);
  vi.stubEnv("GIT_CONFIG_GLOBAL", f.path("account.gitconfig"));
  const made = await f.fromUrl({ url: `http://someone@127.0.0.1:${port}/origin/.git` });
  expect(git(made.path, "config", "remote.origin.url")).toBe(`http://127.0.0.1:${port}/origin/.git`);
});
