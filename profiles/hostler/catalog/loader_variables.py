"""Environment variables that make a program run something else than it says (J4)."""

# Of the dynamic loader, the C library, interpreters, shells and GPU runtimes.
_NAMES = frozenset(
    """
    IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE
    GCONV_PATH GETCONF_DIR HOSTALIASES LOCALDOMAIN LOCPATH MALLOC_TRACE NIS_PATH NLSPATH RESOLV_HOST_CONF
    RES_OPTIONS GLIBC_TUNABLES
    PERLLIB PERL5LIB PERL5OPT PERL5DB RUBYLIB RUBYOPT NODE_OPTIONS NODE_PATH LUA_PATH LUA_CPATH LUA_INIT
    JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH GIT_SSH GIT_SSH_COMMAND GIT_EXEC_PATH
    EDITOR VISUAL PAGER BROWSER LESSOPEN LESSCLOSE OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES
    CUDA_INJECTION64_PATH
    """.split()  # noqa: SIM905 - a list of words reads better
)
_PREFIXES = ("LD_", "DYLD_", "PYTHON", "BASH_FUNC_", "NVIDIA_")
# Harmless when the signed profile fixes them, not when the agent's own surroundings or a task fill them in.
_FIXED_ONLY = frozenset({"PATH", "TMPDIR", "TZDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"})


def changes_what_runs(name: str, fixed: str | None = None) -> bool:
    """Whether no profile may have this variable, in any case of letters.

    Args:
        fixed: the value that the profile gives it; None for one that is passed on or filled in.
    """
    upper = name.upper()
    if upper in _FIXED_ONLY:
        return fixed is None or not all(part.startswith("/") for part in fixed.split(":"))
    return upper in _NAMES or upper.startswith(_PREFIXES)
