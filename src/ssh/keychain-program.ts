import { realpathSync } from "node:fs";
import { text } from "node:stream/consumers";
import { type KeychainReply, type KeychainRequest, passphraseAccount, SERVICE } from "./keychain-protocol.ts";

/**
 * Entry of the keychain program: one request, one answer, and the end. A process of its own, because keytar blocks
 * while a keychain waits for a person, finds its keychain by variables of the environment that a long-lived process
 * has from another session, and because memory that held a secret is best given back to the system.
 */

async function answer(request: KeychainRequest): Promise<KeychainReply> {
  // An optional dependency with a native part: it may not be there, or not load on this machine.
  const keytar = (await import("keytar")).default;
  switch (request.type) {
    case "secret": {
      const secret = await keytar.getPassword(SERVICE, request.account);
      return secret === null ? { type: "nothing" } : { type: "secret", secret };
    }
    case "sign": {
      const keyFile = realpathSync(request.keyFile);
      const passphrase = await keytar.getPassword(SERVICE, passphraseAccount(keyFile));
      if (passphrase === null) return { type: "nothing" };
      // ssh2 takes longer to load than all the rest, and the other requests do not need it.
      const { readKeyFile } = await import("./identity-files.ts");
      const { unlockKey } = await import("./unlock-key.ts");
      const key = readKeyFile(keyFile);
      const sign = typeof key === "string" ? unlockKey(key, passphrase) : undefined;
      if (sign === undefined) return { type: "wrong" };
      return {
        type: "signature",
        signature: sign(Buffer.from(request.data, "base64"), request.hash).toString("base64"),
      };
    }
    case "store":
      await keytar.setPassword(SERVICE, request.account, request.secret);
      return { type: "done" };
    case "remove":
      return { type: (await keytar.deletePassword(SERVICE, request.account)) ? "done" : "nothing" };
    case "list": {
      const found = await keytar.findCredentials(SERVICE);
      return { type: "accounts", accounts: found.map(({ account }) => account) };
    }
  }
}

async function main(): Promise<void> {
  let reply: KeychainReply;
  try {
    reply = await answer(JSON.parse(await text(process.stdin)) as KeychainRequest);
  } catch (error) {
    reply = { type: "unavailable", reason: error instanceof Error ? error.message.split("\n")[0]! : String(error) };
  }
  process.stdout.write(JSON.stringify(reply));
}

void main();
