#!/usr/bin/env bash
# Installs what tests need from Debian and is not there: a Chromium for tests/browser. Without root or a reachable
# package server it says so, and those tests are skipped with the reason.
set -euo pipefail
command -v chromium > /dev/null && exit 0
skipped() { echo "ci-packages: $1: tests that need Chromium are skipped"; exit 0; }
command -v apt-get > /dev/null || skipped "there is no apt-get"
[[ $(id -u) == 0 ]] || skipped "not root"
export DEBIAN_FRONTEND=noninteractive
{ apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium; } > /dev/null 2>&1 \
  || skipped "apt-get could not install chromium"
