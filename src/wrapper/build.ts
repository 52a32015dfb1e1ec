/** Replaced by the build with a hash of everything it built from. */
declare const __PASEO_BUILD__: string;

export function buildName(): string {
  return __PASEO_BUILD__.slice(0, 8);
}

/** Another build's broker may speak another dial protocol or deploy another agent, so each build has its own. */
export function brokerName(): string {
  return `broker-${buildName()}`;
}
