/** What a placement says about where a change request's commits are (paseo contract v1, ResolvedWorktreeSource). */
interface ChangeRequestSource {
  changeRequestNumber?: number | undefined;
  githubPrNumber?: number | undefined;
  checkoutRefs?: { remoteName?: string | undefined; remoteRef: string }[] | undefined;
}

export interface RemoteRef {
  remote: string;
  ref: string;
}

export function changeRequestNumber(source: ChangeRequestSource): number | undefined {
  const number = source.changeRequestNumber ?? source.githubPrNumber;
  return number !== undefined && Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

/**
 * The refs to try, in order. Both sides use it: the wrapper fetches the first that exists for a local directory, the
 * host for a git URL.
 */
export function changeRequestRefs(source: ChangeRequestSource): RemoteRef[] {
  if (source.checkoutRefs) {
    return source.checkoutRefs
      .map(({ remoteName, remoteRef }) => ({ remote: remoteName ?? "origin", ref: remoteRef }))
      .filter(({ remote, ref }) => isRemoteName(remote) && isFetchableRef(ref));
  }
  const number = changeRequestNumber(source);
  return number === undefined ? [] : [{ remote: "origin", ref: `refs/pull/${number}/head` }];
}

/** Neither an option nor a URL with a transport of its own. */
function isRemoteName(name: string): boolean {
  return /^[0-9A-Za-z_][0-9A-Za-z_./-]{0,254}$/.test(name);
}

/** One ref, neither an option nor a pattern nor a refspec of two sides. */
export function isFetchableRef(ref: string): boolean {
  return /^[^\x00-\x20\x7f~^:?*[\\+-][^\x00-\x20\x7f~^:?*[\\]{0,1000}$/.test(ref);
}

/** Full names that a short one may mean, in git's order (gitrevisions(7)). */
export function fullRefNames(ref: string): string[] {
  return [ref, `refs/${ref}`, `refs/tags/${ref}`, `refs/heads/${ref}`];
}
